package agentloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/retry"
	"parley/conversation/toolstate"
	"parley/filecontent"
	"parley/tools"
)

// Router starts a loop for each session that has work, and removes it when the
// session is idle. Only the goroutine of Run touches the map of loops.
type Router struct {
	deps       *Deps
	setups     *setups
	hints      window.Hints // none where the model has no recall
	toolState  *toolstate.Reader
	signals    chan signal
	idle       chan *loop
	slots      chan struct{}          // holds a token for each run that calls the model
	done       chan struct{}          // closed when Run no longer takes signals
	served     []conversation.Account // accounts whose inbound this process answers; none = all accounts
	background *background
	questions  *questions
	outages    *outages
	process    string // identifies this process among those that have worked on the store
	swept      swept  // only where several nodes share the database
	kept       *files.Files
	content    *filecontent.Reader

	imageMemory    *semaphore.Weighted // bytes of images that the runs may load
	downloadMemory *semaphore.Weighted // bytes of files that are being fetched
	summaries      summaries
	calibrations   window.Calibrations // by the names of models
	budgets        window.Budgets
	atWork         atomic.Int64 // number of loops
}

// signal tells the loop of a session that there is new inbound, that it must read
// the store, or that it has a task.
type signal struct {
	key     conversation.Key
	inbound []conversation.Inbound // as stored; none: the loop reads the store
	stop    bool                   // a /stop is among it
	edited  bool                   // a message was edited: no loop is started for it, unless its run waits for an answer of a person
	deleted string                 // source id of a message that was withdrawn; "" = none. It comes with edited
	cancel  int64                  // number of the run to stop; 0 = none. No loop is started for it either
	task    *task                  // is done between two runs; nil = none
	chosen  bool                   // another node has chosen this one to work the session

	// found is what the store has that no run has settled. A loop that works on all of it already is not disturbed.
	found  []conversation.Revision
	waited waited // how long the oldest of found has waited; zero if no sweep has found it
}

var (
	errStopped   = errors.New("stopped by the user")
	errCancelled = fmt.Errorf("%w by its number", errStopped) // unlike with errStopped, waiting messages are still answered
	errWithdrawn = errors.New("all messages of the run were withdrawn")
)

// NewRouter returns a router. Run starts it.
func NewRouter(deps Deps) *Router {
	if deps.FileLimits == (files.Limits{}) {
		deps.FileLimits = files.DefaultLimits()
	}
	kept := files.New(deps.Store)
	if deps.FileContent == nil {
		deps.FileContent = filecontent.New(kept)
	}
	r := &Router{
		kept:           kept,
		content:        deps.FileContent,
		downloadMemory: semaphore.NewWeighted(maxDownloadMemory),
		deps:           &deps,
		setups:         newSetups(&deps),
		signals:        make(chan signal, 1024),
		idle:           make(chan *loop),
		slots:          make(chan struct{}, deps.Config.MaxConcurrentRuns),
		done:           make(chan struct{}),
		imageMemory:    semaphore.NewWeighted(maxImageMemory),
		toolState:      toolstate.New(deps.Config.ToolNames()),
		background:     newBackground(deps.Log),
		questions:      newQuestions(),
		outages:        newOutages(deps.Log, deps.Config.MaxConcurrentRuns/2),
		process:        uuid.NewString(),
	}
	if node := deps.Store.Node(); node != nil {
		node.Subscribe(sessionTopic, r.receive)
	}
	if deps.Tools.Has(tools.RecallName) {
		r.hints = window.NewHints(deps.HintPhrases)
	}
	return r
}

// Room is how the tokens of the calls of an agent are shared that a model answers.
type Room struct {
	Agent, Model string // names; "" = the default one
	window.Room
}

// Rooms returns how the tokens of a call are shared now: of the default agent with each model, and of each agent with its own.
func (r *Router) Rooms() (rooms []Room) {
	for i := range r.setups.agents {
		a := &r.setups.agents[i]
		for _, m := range r.setups.models {
			if i == 0 || m.Name == a.Model {
				rooms = append(rooms, Room{a.Name, m.Name, r.setups.frame(r.deps.Counter, a).Room(m.Budget)})
			}
		}
	}
	return rooms
}

// Accepted wakes the loops of inbound that Accept has stored. A /stop among it ends
// the run of its session at once.
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

// Edited has the loop of a session, if there is one, read the store again: somebody
// else has changed its conversation or what waits.
func (r *Router) Edited(key conversation.Key) {
	if r.isElsewhere(key) {
		r.publish(request{Session: key, Edited: true})
	}
	r.signal(signal{key: key, edited: true})
}

// Withdrawn is Edited for a message that was withdrawn, given by its source id. A run that answers no other message
// ends, and nothing of its answer is sent.
func (r *Router) Withdrawn(key conversation.Key, sourceID string) {
	if r.isElsewhere(key) {
		r.publish(request{Session: key, Edited: true, Deleted: sourceID})
	}
	r.signal(signal{key: key, edited: true, deleted: sourceID})
}

// Cancel ends one run of a session, given by its number, if it is under way. What the run
// has written so far is kept as after a /stop; messages that wait are answered by the next run.
func (r *Router) Cancel(key conversation.Key, run int64) {
	if r.isElsewhere(key) {
		r.publish(request{Session: key, Cancel: run})
	}
	r.signal(signal{key: key, cancel: run})
}

// Wake has the loop of a session answer what waits in the store. It is for inbound
// that did not come through Accept.
func (r *Router) Wake(key conversation.Key) {
	r.signal(signal{key: key})
}

func (r *Router) signal(s signal) {
	select {
	case r.signals <- s:
	case <-r.done:
	}
}

// AtWork returns how many sessions have a loop: those that are at work, and those that
// were a moment ago.
func (r *Router) AtWork() int64 { return r.atWork.Load() }

// Run answers what waits in the scopes, then serves them until intake ends. It then
// begins no more runs, waits up to DrainTimeout for those under way, and cancels the
// rest; their messages stay in the inbox for the next start. When runs ends, all runs
// end at once.
func (r *Router) Run(intake, runs context.Context, scopes ...conversation.Scope) error {
	runs, cancelRuns := context.WithCancel(runs)
	defer cancelRuns()
	for _, scope := range scopes {
		r.served = append(r.served, scope.By())
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	r.background.start(intake, &workers)
	workers.Go(func() { r.watchQuestions(intake) })
	workers.Go(func() { r.watchDeferred(intake) })
	if node := r.deps.Store.Node(); node != nil {
		node.ReportLoad(r.load)
		workers.Go(func() { r.sweep(intake, scopes) })
	}
	var running sync.WaitGroup
	loops := map[conversation.Key]*loop{}
	ended := 0 // loops since memory was released

	wake := func(s signal) {
		l := loops[s.key]
		if l == nil && (s.edited || s.cancel != 0) && !r.questions.has(s.key) {
			return
		}
		if l == nil {
			l = newLoop(r, s.key)
			l.chosen = s.chosen
			loops[s.key] = l
			r.atWork.Store(int64(len(loops)))
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
				r.atWork.Store(int64(len(loops)))
				ended++
			}
			if len(loops) == 0 && ended >= releaseThreshold {
				loops, ended = map[conversation.Key]*loop{}, 0
				r.deps.ReleaseMemory()
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

// unsettled returns the sessions with inbound that no run has settled. Their loops
// answer it like any other, which is all there is to the recovery from a crash.
func (r *Router) unsettled(ctx context.Context, scopes []conversation.Scope) []conversation.Key {
	var all []conversation.Key
	for _, scope := range scopes {
		var list []conversation.Waiting
		err := retry.Persist(ctx, r.deps.Log, "read what waits", func() (err error) {
			list, err = r.deps.Store.Waiting(ctx, scope)
			return err
		})
		if conversation.IsDamaged(err) {
			continue // these sessions are answered when somebody writes there
		}
		if err != nil {
			return nil // the gateway ends
		}
		if len(list) > 0 {
			r.deps.Log.Info("answering what waits from before", "channel", scope.Channel, "sessions", len(list))
		}
		for _, w := range list {
			all = append(all, w.Key)
		}
	}
	return all
}

// Resume answers inbound of the scopes that no run has settled. After a failure of
// the database, some may be stored although Accept returned an error.
func (r *Router) Resume(ctx context.Context, scopes ...conversation.Scope) {
	for _, key := range r.unsettled(ctx, scopes) {
		r.signal(signal{key: key})
	}
}

// drain waits up to DrainTimeout for the loops to end, then cancels their runs.
func (r *Router) drain(running *sync.WaitGroup, cancelRuns context.CancelFunc) {
	finished := make(chan struct{})
	go func() { running.Wait(); close(finished) }()
	timeout := time.NewTimer(r.deps.Config.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-finished:
	case <-timeout.C:
		r.deps.Log.Warn("drain timed out; the next start answers the rest", "waited", r.deps.Config.DrainTimeout)
		cancelRuns()
		<-finished
	}
}
