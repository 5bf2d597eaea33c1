package agentloop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"parley/agentloop/command"
	"parley/agentloop/window"
	"parley/conversation"
	"parley/tools"
)

// Router starts a loop for each session that has work, and forgets it when it
// falls silent. Its own goroutine, Run, alone touches the map of loops.
type Router struct {
	deps        *Deps
	frame       *window.Frame
	env         command.Env
	hints       window.Hints // none without recall
	signals     chan signal
	idle        chan *loop
	slots       chan struct{}          // one for each model call that may be under way
	done        chan struct{}          // closed when Run no longer takes signals
	served      []conversation.Account // whose inbound is answered here; none = every one
	background  chan func(context.Context)
	imageMemory *semaphore.Weighted // bytes of them that runs may have in memory
	summaries   summaries
	calibration window.Calibration
	budgets     window.Budgets
}

// signal says that a session has new inbound, that its loop must look, or that
// it has something to do.
type signal struct {
	key     conversation.Key
	inbound []conversation.Inbound // as stored; nil: the store knows
	stop    bool                   // a /stop is among it
	edited  bool                   // only a loop at work needs to know
	task    *task                  // to be done between two runs; nil = none
}

var errStopped = errors.New("stopped by the user")

// NewRouter makes a router; Run starts it.
func NewRouter(deps Deps) *Router {
	r := &Router{
		deps:        &deps,
		signals:     make(chan signal, 1024),
		idle:        make(chan *loop),
		slots:       make(chan struct{}, deps.Config.MaxConcurrentRuns),
		done:        make(chan struct{}),
		imageMemory: semaphore.NewWeighted(maxImageMemory),
		frame:       window.NewFrame(deps.Counter, deps.Config.SystemPrompt, deps.Tools),
		background:  make(chan func(context.Context), backgroundQueue),
	}
	r.env = r.commandEnv()
	if deps.Tools.Has(tools.RecallName) {
		r.hints = window.NewHints(deps.HintPhrases)
	}
	return r
}

// CheckPrompt tells the operator when the system prompt is so long that it is
// sent cut.
func (r *Router) CheckPrompt() error { return r.frame.Check(r.deps.Budget) }

// windowOf returns what a run sends to the model when asked is to be answered.
func (r *Router) windowOf(snapshot conversation.Turn, asked []conversation.Message) window.Window {
	return r.windowWithHint(snapshot, asked, r.hints.For(asked))
}

func (r *Router) windowWithHint(snapshot conversation.Turn, asked []conversation.Message, hint string) window.Window {
	return window.New(window.Input{
		Frame: r.frame, Snapshot: snapshot, Asked: asked, Hint: hint, StateTokens: min(r.deps.StateBudget, r.deps.Budget/4),
	})
}

// Accepted tells the router of inbound that Accept has stored. Loops wake, and
// a /stop ends the run of its session at once.
func (r *Router) Accepted(stored ...conversation.Inbound) {
	for len(stored) > 0 {
		n := 1
		for n < len(stored) && stored[n].Key == stored[0].Key {
			n++
		}
		r.signal(signal{key: stored[0].Key, inbound: stored[:n], stop: slices.ContainsFunc(stored[:n], isStop)})
		stored = stored[n:]
	}
}

// Edited tells the router that what waits in a session, or its conversation,
// was changed in the store by another hand than its loop's.
func (r *Router) Edited(key conversation.Key) {
	r.signal(signal{key: key, edited: true})
}

// Look has the loop of a session read from the store what waits there: the
// inbound was put there by another hand than Accept's.
func (r *Router) Look(key conversation.Key) {
	r.signal(signal{key: key})
}

func (r *Router) signal(s signal) {
	select {
	case r.signals <- s:
	case <-r.done:
	}
}

// Run resumes what the store holds of the scopes, then serves their channels
// until intake ends. It then begins no more runs, waits up to DrainTimeout for those under
// way, and ends the rest; what they would have answered stays in the inbox. The
// end of runs ends the runs at once.
func (r *Router) Run(intake, runs context.Context, scopes ...conversation.Scope) error {
	runs, cancelRuns := context.WithCancel(runs)
	defer cancelRuns()
	for _, scope := range scopes {
		r.served = append(r.served, scope.By())
	}
	var working sync.WaitGroup
	defer working.Wait()
	r.startBackground(intake, &working)
	var running sync.WaitGroup
	loops := map[conversation.Key]*loop{}
	ended := 0 // loops, since the last rest

	wake := func(s signal) {
		l := loops[s.key]
		if l == nil && s.edited {
			return
		}
		if l == nil {
			l = newLoop(r, s.key)
			loops[s.key] = l
			running.Go(func() { l.run(intake, runs) })
		}
		l.post(s)
	}
	for _, key := range r.unsettled(intake, scopes) {
		wake(signal{key: key})
	}
	for {
		select {
		case s := <-r.signals:
			wake(s)
		case l := <-r.idle:
			if l.mayEnd() {
				delete(loops, l.key)
				ended++
			}
			if len(loops) == 0 && ended >= releaseThreshold {
				loops, ended = map[conversation.Key]*loop{}, 0
				r.deps.Rest()
			}
		case <-intake.Done():
			close(r.done)
			r.drain(&running, cancelRuns)
			return nil
		}
	}
}

// releaseThreshold is the number of loops that must have ended before memory is
// returned to the system, once none is left.
const releaseThreshold = 100

// leftovers are the sessions with inbound that no run has settled: the ordinary
// path is also the way back from a crash.
func (r *Router) unsettled(ctx context.Context, scopes []conversation.Scope) []conversation.Key {
	var all []conversation.Key
	for _, scope := range scopes {
		var keys []conversation.Key
		err := conversation.Persist(ctx, r.deps.Log, "read what was left waiting", func() (err error) {
			keys, err = r.deps.Store.Waiting(ctx, scope)
			return err
		})
		if conversation.IsDamaged(err) {
			continue // sessions are answered when somebody writes there
		}
		if err != nil {
			return nil // the gateway ends
		}
		if len(keys) > 0 {
			r.deps.Log.Info("answering what was left waiting", "channel", scope.Channel, "sessions", len(keys))
		}
		all = append(all, keys...)
	}
	return all
}

// Resume looks again for inbound of the scopes that no run has settled: some may
// have been stored although whoever stored it was told of an error.
func (r *Router) Resume(ctx context.Context, scopes ...conversation.Scope) {
	for _, key := range r.unsettled(ctx, scopes) {
		r.signal(signal{key: key})
	}
}

func (r *Router) drain(running *sync.WaitGroup, cancelRuns context.CancelFunc) {
	finished := make(chan struct{})
	go func() { running.Wait(); close(finished) }()
	timeout := time.NewTimer(r.deps.Config.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-finished:
	case <-timeout.C:
		r.deps.Log.Warn("answers still under way are left for the next start", "waited", r.deps.Config.DrainTimeout)
		cancelRuns()
		<-finished
	}
}
