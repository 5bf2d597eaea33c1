package agentloop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"parley/conversation"
	"parley/conversation/retry"
)

// loop serves one session. Its goroutine answers what waits, run by run, until
// nothing does. The router's goroutine fills the mailbox and ends a run that the
// user has stopped.
type loop struct {
	router *Router
	deps   *Deps
	key    conversation.Key
	mail   *mailbox
	stop   chan struct{}           // holds one token when a /stop has arrived
	cancel atomic.Pointer[func()]  // ends the run under way; nil when there is none
	end    chan bool               // the router's answer to idle, see mayEnd
	join   atomic.Pointer[joining] // the run under way, while it may begin again
	cache  cache
	burst  burst
}

func newLoop(r *Router, key conversation.Key) *loop {
	return &loop{
		router: r,
		deps:   r.deps,
		key:    key,
		mail:   newMailbox(),
		stop:   make(chan struct{}, 1),
		end:    make(chan bool, 1),
	}
}

// post delivers a signal to the loop. The router's goroutine calls it.
func (l *loop) post(s signal) {
	l.mail.put(s)
	if j := l.join.Load(); j != nil {
		j.join(s.inbound, time.Now())
	}
	if s.stop {
		offer(l.stop)
		if cancel := l.cancel.Load(); cancel != nil {
			(*cancel)()
		}
	}
}

// mayEnd answers a loop that has asked to end, and reports whether it may: no mail
// has come since it asked. The router's goroutine, which alone posts mail, calls it.
func (l *loop) mayEnd() bool {
	end := len(l.mail.ready) == 0
	l.end <- end
	return end
}

// offer sends a token unless one is there already.
func offer(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run holds the session's lock and serves the session until it has been idle for
// LoopIdleTimeout or intake ends. What is under way may go on until runs ends.
func (l *loop) run(intake, runs context.Context) {
	unlock, _, err := retry.Lock(intake, l.deps.Log, l.deps.Store.Lock, l.key)
	if err != nil {
		return
	}
	defer unlock()
	idle := time.NewTimer(l.deps.Config.LoopIdleTimeout)
	defer idle.Stop()
	for {
		select {
		case <-l.mail.ready:
			l.work(intake, runs)
			idle.Reset(l.deps.Config.LoopIdleTimeout)
		case <-idle.C:
			if l.askToEnd(intake) {
				return
			}
			idle.Reset(l.deps.Config.LoopIdleTimeout)
		case <-intake.Done():
			return
		}
	}
}

// askToEnd reports whether the router has removed the loop from its map.
func (l *loop) askToEnd(intake context.Context) bool {
	select {
	case l.router.idle <- l:
	case <-intake.Done():
		return true
	}
	// The mailbox stays as it is until the answer, which depends on it.
	select {
	case end := <-l.end:
		return end
	case <-intake.Done():
		return true
	}
}

// work carries out tasks and runs until nothing waits.
func (l *loop) work(intake, runs context.Context) {
	for intake.Err() == nil {
		l.runTasks(runs)
		snapshot, err := l.begin(intake)
		if err != nil || len(snapshot.Waiting) == 0 {
			return
		}
		if l.awaitMore(intake, snapshot.Waiting) {
			continue
		}
		if !l.recoveredStep(intake, runs, snapshot) {
			return
		}
	}
}

// begin returns the session with all that waits now, from the cache or, if that is
// not valid, from the store. It tries again while the store fails.
func (l *loop) begin(ctx context.Context) (conversation.Snapshot, error) {
	select {
	case <-l.stop: // the /stop itself is among what waits, where step finds it
	default:
	}
	inbound, stale := l.mail.empty()
	if stale {
		l.cache.invalidate()
	}
	l.burst.post(inbound)
	l.cache.add(inbound)
	if len(l.cache.snapshot.Waiting) > 0 && l.router.isNarrow(l.cache.snapshot) {
		l.cache.invalidate() // the store has the older turns
	}
	if l.cache.valid {
		return l.cache.snapshot, nil
	}
	var snapshot conversation.Snapshot
	err := l.persist(ctx, "read the session", func() (err error) {
		snapshot, err = l.deps.Store.Begin(ctx, l.key, l.deps.Budget, l.router.served...)
		if err == nil && len(snapshot.Waiting) > 0 {
			snapshot, err = l.router.complete(ctx, snapshot)
		}
		return err
	})
	if err == nil {
		l.cache.load(snapshot)
	}
	return snapshot, err
}

// step carries out what waits first: a command, or a run that answers the messages
// up to the next command or the next origin, since a run has one reply. It reports
// whether the loop may go on.
func (l *loop) step(intake, runs context.Context, snapshot conversation.Snapshot) bool {
	if command, is := snapshot.Waiting[0].Command(); is {
		return l.command(intake, runs, snapshot, command)
	}
	if snapshot.Damaged {
		return l.commit(runs, l.damagedRun(snapshot, nextToAnswer(snapshot.Waiting)))
	}
	if n := settledByStop(snapshot.Waiting); n > 0 {
		var q question
		q.snapshot, q.undo = l.router.renewed(snapshot).Replacing()
		return l.commit(runs, l.stoppedRun(q, snapshot.Waiting[:n], answer{}, time.Now()))
	}
	waited, ok := l.takeSlot(intake)
	if !ok {
		return intake.Err() == nil
	}
	defer func() { <-l.router.slots }()
	if waited { // more may have come meanwhile
		var err error
		if snapshot, err = l.begin(intake); err != nil || len(snapshot.Waiting) == 0 {
			return false
		}
		if settledByStop(snapshot.Waiting) > 0 || snapshot.Damaged {
			return true
		}
	}
	snapshot.Waiting = nextToAnswer(snapshot.Waiting)
	if len(snapshot.Waiting) == 0 {
		return true
	}
	return l.answerNew(runs, snapshot)
}

// takeSlot takes one of MaxConcurrentRuns slots, and waits for one if need be. A
// /stop or the end of intake ends the wait; ok is false then. waited reports
// whether no slot was free at once.
func (l *loop) takeSlot(intake context.Context) (waited, ok bool) {
	select {
	case l.router.slots <- struct{}{}:
		return false, true
	default:
	}
	select {
	case l.router.slots <- struct{}{}:
		return true, true
	case <-l.stop:
		return true, false
	case <-intake.Done():
		return true, false
	}
}

// commit stores a run and hands its replies to delivery. It tries again while the
// store fails. It returns false when runs ends before it succeeds; the run is then
// made again at the next start. When the database is damaged where the run would
// stand, the user is told so instead.
func (l *loop) commit(runs context.Context, run conversation.Run) bool {
	l.router.announceExpiry(run)
	var done conversation.Committed
	err := l.persist(runs, "store a run", func() (err error) {
		done, err = l.deps.Store.Commit(runs, run)
		if errors.Is(err, conversation.ErrSettled) { // an earlier attempt succeeded
			l.cache.invalidate()
			done.Replies, err = l.deps.Store.Deliveries(runs, conversation.DeliveryQuery{Key: l.key, Ready: true, Limit: len(run.Replies), Accounts: l.router.served})
		}
		return err
	})
	if conversation.IsDamaged(err) {
		return l.commitWithout(runs, run)
	}
	if err != nil {
		return false
	}
	l.deps.Log.Debug("run committed", "session", l.key, "run", run.ID(), "kind", run.Kind, "status", run.Status, "conversation", done.Conversation.ID,
		"messages", len(done.Messages), "replies", len(done.Replies), "took", time.Since(run.StartedAt))
	l.deps.Watcher.Committed(run, done)
	if l.deps.Strategy == Summarization && run.Window.Start != run.Conversation.Window.Start {
		l.cache.invalidate() // the window has another summary
	}
	l.cache.committed(run, done, l.deps.Budget)
	l.requestTitle(run, done)
	l.requestSummary(run)
	if len(done.Replies) > 0 {
		l.deps.Deliver(done.Replies)
	}
	if run.Effect.Title != "" {
		l.deps.Watcher.Titled(l.key, run.Took[0].Destination(), run.Effect.Title)
	}
	return true
}

// persist calls do until it succeeds, ctx ends, or it meets damage.
func (l *loop) persist(ctx context.Context, what string, do func() error) error {
	return retry.Persist(ctx, l.deps.Log, what+" of "+string(l.key), do)
}
