package agentloop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"parley/conversation"
)

// loop is one session at work: a goroutine that takes what waits, step by
// step, until nothing does.
type loop struct {
	router *Router
	deps   *Deps
	key    conversation.Key
	mail   *mailbox
	stop   chan struct{}          // a /stop has come
	cancel atomic.Pointer[func()] // ends the run under way, nil when there is none
	end    chan bool              // the answer to idle: the router has forgotten the loop, or there is mail

	snapshot conversation.Turn // the session, as the loop knows it
	known    bool              // turn is what the store holds, but for the mail
	newest   int64             // inbound that the loop has seen
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

// post is called by the router's goroutine.
func (l *loop) post(s signal) {
	l.mail.put(s)
	if s.stop {
		offer(l.stop)
		if cancel := l.cancel.Load(); cancel != nil {
			(*cancel)()
		}
	}
}

// mayEnd is called by the router's goroutine when the loop has asked to end,
// and answers it. No mail can come in between, since the same goroutine posts it.
func (l *loop) mayEnd() bool {
	end := len(l.mail.ready) == 0
	l.end <- end
	return end
}

func offer(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run serves the session until it is idle or intake ends. runs is the context
// of what is under way: it outlives intake by the drain timeout.
func (l *loop) run(intake, runs context.Context) {
	unlock, _, err := conversation.WaitLock(intake, l.deps.Log, l.deps.Store.Lock, l.key)
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

// askToEnd reports whether the router has forgotten the loop.
func (l *loop) askToEnd(intake context.Context) bool {
	select {
	case l.router.idle <- l:
	case <-intake.Done():
		return true
	}
	// Nothing is taken from the mail before the answer, which depends on it.
	select {
	case end := <-l.end:
		return end
	case <-intake.Done():
		return true
	}
}

// work takes steps until nothing waits.
func (l *loop) work(intake, runs context.Context) {
	for intake.Err() == nil {
		l.runTasks(runs)
		snapshot, err := l.begin(intake)
		if err != nil || len(snapshot.Waiting) == 0 || !l.recoveredStep(intake, runs, snapshot) {
			return
		}
	}
}

// begin gives the turn, with all that waits by now. A loop that knows its
// session adds the mail to it; else the store is read, again and again while it
// fails.
func (l *loop) begin(ctx context.Context) (conversation.Turn, error) {
	select {
	case <-l.stop: // the /stop itself is among what waits, where step finds it
	default:
	}
	l.take(l.mail.empty())
	if l.known {
		return l.snapshot, nil
	}
	err := l.persist(ctx, "read the session", func() (err error) {
		l.snapshot, err = l.deps.Store.Begin(ctx, l.key, l.deps.Budget, l.router.served...)
		if err == nil && l.deps.Strategy == Summarization && len(l.snapshot.Waiting) > 0 {
			l.snapshot.Summary, err = l.deps.Store.Summary(ctx, l.snapshot.Conversation.ID)
			if conversation.IsDamaged(err) {
				err = nil // the window goes without it
			}
		}
		return err
	})
	if n := len(l.snapshot.Waiting); err == nil && n > 0 {
		l.newest = max(l.newest, l.snapshot.Waiting[n-1].ID)
		l.known = !l.snapshot.More && !l.snapshot.Damaged
	}
	return l.snapshot, err
}

// take adds mail to the turn. What does not follow on what the loop has seen
// was read from the store before its mail came, or came out of order.
func (l *loop) take(inbound []conversation.Inbound, stale bool) {
	l.known = l.known && !stale
	for _, in := range inbound {
		if in.ID <= l.newest {
			l.known = false
			continue
		}
		l.newest = in.ID
		l.snapshot.Waiting = append(l.snapshot.Waiting, in)
	}
}

// settled takes a run that was committed out of the turn.
func (l *loop) settled(run conversation.Run, done conversation.Committed) {
	if run.Effect != (conversation.Effect{}) || done.Conversation.ID != l.snapshot.Conversation.ID || !follows(run, done) {
		l.known = false
	}
	if !l.known {
		return
	}
	next := l.snapshot.After(done, l.deps.Budget)
	next.Waiting, next.Notes = without(l.snapshot.Waiting, run.Took), without(l.snapshot.Notes, run.Took)
	l.snapshot = next
}

// follows says whether a run's messages stand right behind what the run knew of
// the conversation: nobody else has added to it meanwhile.
func follows(run conversation.Run, done conversation.Committed) bool {
	return done.Conversation.Messages == run.Conversation.Messages+int64(len(done.Messages))
}

// step does the first thing that waits: a command, or a run that answers every
// message up to the next command, or to the next place, since a run has one
// reply. It reports whether the loop may go on.
func (l *loop) step(intake, runs context.Context, snapshot conversation.Turn) bool {
	if command, is := snapshot.Waiting[0].Command(); is {
		return l.command(intake, runs, snapshot, command)
	}
	if snapshot.Damaged {
		return l.commit(runs, l.damagedRun(snapshot, ofOnePlace(untilCommand(snapshot.Waiting))))
	}
	if n := settledByStop(snapshot.Waiting); n > 0 {
		return l.commit(runs, l.stoppedRun(question{snapshot: l.router.renewed(snapshot)}, snapshot.Waiting[:n], answer{}, time.Now()))
	}
	waited, ok := l.takeSlot(intake)
	if !ok {
		return intake.Err() == nil
	}
	defer func() { <-l.router.slots }()
	if waited { // and more may have come meanwhile
		var err error
		if snapshot, err = l.begin(intake); err != nil || len(snapshot.Waiting) == 0 {
			return false
		}
		if settledByStop(snapshot.Waiting) > 0 || snapshot.Damaged {
			return true
		}
	}
	snapshot.Waiting = ofOnePlace(untilCommand(snapshot.Waiting))
	if len(snapshot.Waiting) == 0 {
		return true
	}
	return l.answerNew(runs, l.router.renewed(snapshot))
}

// takeSlot waits for one of the model calls that may be under way at once. A
// /stop cuts the wait short. waited says that there was none at once.
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

// commit stores a run and wakes the delivery of its replies. While the store
// fails, the finished run is kept and tried again. It reports false when the
// gateway ends before it succeeds; the run is then made anew at the next start.
// What can't be stored because the file is damaged is told in words instead.
func (l *loop) commit(runs context.Context, run conversation.Run) bool {
	open(run)
	var done conversation.Committed
	err := l.persist(runs, "store a run", func() (err error) {
		done, err = l.deps.Store.Commit(runs, run)
		if errors.Is(err, conversation.ErrSettled) { // an earlier try did succeed
			l.known = false
			done.Replies, err = l.deps.Store.Deliveries(runs, conversation.DeliveryQuery{Key: l.key, State: conversation.DueNow, Limit: len(run.Replies), Accounts: l.router.served})
		}
		return err
	})
	if conversation.IsDamaged(err) {
		return l.commitWithout(runs, run)
	}
	if err != nil {
		return false
	}
	l.deps.Watcher.Committed(run, done)
	l.settled(run, done)
	l.titleLater(run, done)
	l.summarizeLater()
	if len(done.Replies) > 0 {
		l.deps.Deliver(done.Replies)
	}
	if run.Effect.Title != "" {
		l.deps.Watcher.Titled(l.key, run.Took[0].Destination(), run.Effect.Title)
	}
	return true
}

// persist calls do until the store lets it succeed, ctx ends, or the store is
// damaged there.
func (l *loop) persist(ctx context.Context, what string, do func() error) error {
	return conversation.Persist(ctx, l.deps.Log, what+" of "+string(l.key), do)
}
