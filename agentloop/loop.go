package agentloop

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/journal"
	"parley/conversation/retry"
	"parley/conversation/steps"
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
	active atomic.Pointer[active]  // the run under way; nil when there is none
	cancel atomic.Int64            // the number of the run that was cancelled last
	end    chan bool               // the router's answer to idle, see mayEnd
	join   atomic.Pointer[joining] // the run under way, while it may begin again

	chosen    bool  // another node has chosen this one to work the session
	elsewhere bool  // another node works the session; set while the loop asks to end
	sendTo    int64 // the node that is to work the session once this one has given it up; 0 = none
	reread    bool  // the store was read since the unfinished run was: another session may have given its run to this one
	cache     cache
	burst     burst

	apart      bool  // the next run answers one person alone, since another one of them may be over budget
	toldToWait int64 // ID of the message whose chat was told last that it waits for its turn

	journal    *journal.Journal
	approvals  *approvals.Approvals
	unfinished unfinished
}

func newLoop(r *Router, key conversation.Key) *loop {
	return &loop{
		router: r,
		deps:   r.deps,
		key:    key,
		mail:   newMailbox(),
		stop:   make(chan struct{}, 1),
		end:    make(chan bool, 1),

		journal:   journal.New(r.deps.Store),
		approvals: approvals.New(r.deps.Store),
	}
}

// post delivers a signal to the loop. The router's goroutine calls it.
func (l *loop) post(s signal) {
	if s.cancel != 0 {
		l.cancel.Store(s.cancel)
		if run := l.active.Load(); run != nil && run.number == s.cancel {
			run.stop(errCancelled)
			return
		}
		l.mail.put(signal{key: l.key}) // the run may wait for an answer
		return
	}
	l.mail.put(s)
	if run := l.active.Load(); run != nil && s.deleted != "" {
		run.withdraw(s.deleted)
	}
	if j := l.join.Load(); j != nil {
		j.join(s.inbound, time.Now())
	}
	if s.stop {
		offer(l.stop)
		if run := l.active.Load(); run != nil {
			run.stop(errStopped)
		}
	}
}

// active is a run that the router's goroutine can end.
type active struct {
	number int64
	stop   context.CancelCauseFunc
	left   map[string]bool // source ids of the messages of the run that were not withdrawn; nil: the run does not end with them
}

// withdraw notes that a message was withdrawn, and ends the run if it has no other one. The router's goroutine calls it.
func (a *active) withdraw(sourceID string) {
	if !a.left[sourceID] {
		return
	}
	if delete(a.left, sourceID); len(a.left) == 0 {
		a.stop(errWithdrawn)
	}
}

// mayEnd answers a loop that has asked to end, and reports whether it may: no mail
// has come since it asked, nor a /stop that another node has to be told of. The router's
// goroutine, which alone posts mail, calls it.
func (l *loop) mayEnd() bool {
	end := len(l.mail.ready) == 0 && !(l.elsewhere && len(l.stop) > 0)
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

// run serves the session until it has been idle for LoopIdleTimeout, another node works it, or intake
// ends. A run that is under way when intake ends may go on until runs ends.
func (l *loop) run(intake, runs context.Context) {
	for l.serve(intake, runs) {
	}
}

// serve holds the session's lock and answers what comes. It reports whether the loop goes on: the node
// has lost the session, and tries to get it back.
func (l *loop) serve(intake, runs context.Context) (again bool) {
	unlock, ok := l.lock(intake)
	if !ok {
		return false
	}
	defer unlock()
	held, cancel := l.deps.Store.Node().While(intake)
	defer cancel()
	runs, cancelRuns := l.deps.Store.Node().While(runs)
	defer cancelRuns()
	if l.router.isElsewhere(l.key) {
		l.forget() // the node was declared dead a moment ago, and has joined anew
		return intake.Err() == nil
	}
	idle := time.NewTimer(l.deps.Config.LoopIdleTimeout)
	defer idle.Stop()
	for {
		handsOver, change := l.deps.Store.Node().HandsOver()
		if handsOver || l.sendTo != 0 {
			if l.sendTo == 0 && l.hasNothingLeft() && l.askToEnd(intake) {
				return false
			}
			return l.giveUp(intake, runs, l.sendTo)
		}
		select {
		case <-change:
		case <-l.mail.ready:
			l.work(held, runs)
			idle.Reset(l.deps.Config.LoopIdleTimeout)
		case <-idle.C:
			if !l.holdsCall() && l.askToEnd(intake) {
				return false
			}
			idle.Reset(l.deps.Config.LoopIdleTimeout)
		case <-held.Done():
			l.forget()
			return intake.Err() == nil
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

// work carries out tasks and runs until nothing waits, or until other nodes are to answer what waits.
func (l *loop) work(intake, runs context.Context) {
	defer l.mail.works(nil)
	for intake.Err() == nil {
		l.runTasks(runs)
		if handsOver, _ := l.deps.Store.Node().HandsOver(); handsOver || l.sendTo != 0 {
			return
		}
		if !l.readUnfinished(intake) {
			return
		}
		if l.unfinished.found && !l.unfinished.Waits {
			if !l.settleWithdrawn(runs) {
				return
			}
			continue
		}
		snapshot, err := l.begin(intake)
		if err != nil {
			return
		}
		if l.reread || l.unfinished.found && !slices.ContainsFunc(snapshot.Waiting, l.unfinished.took) {
			l.reread, l.unfinished.known = false, false // another run may be unfinished by now, or the run's messages withdrawn
			if !l.readUnfinished(intake) {
				return
			}
			if l.unfinished.found && !l.unfinished.Waits {
				continue
			}
		}
		if len(snapshot.Waiting) == 0 {
			return
		}
		if found := l.mail.works(snapshot.Waiting); found.sweeps > 0 {
			l.deps.Log.Debug("waiting message taken", "session", l.key, "inbound", found.inbound, "sweeps", found.sweeps)
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
		l.reread = true
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
		snapshot, err = l.deps.Store.Begin(ctx, l.key, l.router.setups.budget(), l.router.served...)
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

// maxTaken is how many messages a run answers at most where more of them are looked at than a snapshot has.
const maxTaken = 200

// step carries out what waits first: a command, or a run that answers the messages
// up to the next command or the next origin, since a run has one reply. It reports
// whether the loop may go on.
func (l *loop) step(intake, runs context.Context, snapshot conversation.Snapshot) bool {
	open, err := l.readQuestions(intake)
	if err != nil {
		return false
	}
	if len(open) > 0 {
		if slices.ContainsFunc(snapshot.Waiting, func(in conversation.Inbound) bool { return !in.DeferredSince.IsZero() }) { // the model has answered since: they wait for a person
			return l.endDeferral(runs)
		}
		return l.whileAsked(intake, runs, snapshot, open)
	}
	if l.mustDefer(snapshot) {
		return l.whileDeferred(intake, runs, snapshot)
	}
	if command, is := snapshot.Waiting[0].Command(); is {
		return l.command(intake, runs, snapshot, command)
	}
	if snapshot.Damaged {
		return l.commit(runs, l.damagedRun(snapshot, nextToAnswer(snapshot.Waiting)))
	}
	if stopAfterTexts(snapshot.Waiting) > 0 {
		return l.stopWaiting(intake, runs, snapshot)
	}
	next := l.nextToAnswer(snapshot.Waiting)
	if l.deps.Budgets.Paces != nil { // the first ones may all have to wait
		next = l.awaitTurns(intake, l.nextToAnswer(l.allWaiting(intake, snapshot)))
		next = next[:min(len(next), maxTaken)]
	}
	if len(next) == 0 {
		return intake.Err() == nil
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
		if stopAfterTexts(snapshot.Waiting) > 0 || snapshot.Damaged {
			return true
		}
	}
	if waited {
		if now := l.nextToAnswer(snapshot.Waiting); l.deps.Budgets.Paces == nil {
			next = now
		} else {
			next = without(now, without(now, next)) // those that may be answered, as they read now
		}
	}
	if snapshot.Waiting = next; len(next) == 0 {
		return true
	}
	return l.answerNew(runs, snapshot)
}

// stopWaiting carries out a /stop while no run is under way. It settles the messages that wait before it, and the run
// that an earlier process has begun. In a group, messages of others than its sender are answered all the same.
func (l *loop) stopWaiting(intake, runs context.Context, snapshot conversation.Snapshot) bool {
	begun := l.unfinished.takenOf(snapshot.Waiting)
	took := slices.Concat(begun, without(settledByStop(snapshot.Waiting), begun))
	if len(took) == 1 { // there is nothing to stop: the messages that wait are those of others
		snapshot.Waiting = took
		return l.command(intake, runs, snapshot, conversation.Command{Name: "stop"})
	}
	var q question
	if err := l.persist(runs, "read the session", func() (err error) {
		q.snapshot, q.undo, err = l.router.replacing(runs, snapshot)
		return err
	}); err != nil {
		return false
	}
	return l.commit(runs, l.stoppedRun(q, took, l.doneBefore(&l.unfinished, callStopped), l.deps.Store.Now()))
}

// commit stores a run and hands its replies to delivery. It tries again while the
// store fails. It returns false when runs ends before it succeeds; the run is then
// repeated at the next start. If the run can't be stored because the database is damaged,
// the user is told so instead. calls were made to read the run's files.
func (l *loop) commit(runs context.Context, run conversation.Run, calls ...steps.Step) bool {
	l.router.announceExpiry(run)
	l.apart = false
	if slices.ContainsFunc(run.Took, l.unfinished.took) {
		run.Journal = l.unfinished.ID
	}
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
	if run.Journal != 0 {
		l.forgetHeld()
		l.unfinished = unfinished{} // the session may have another one
	}
	l.deps.Log.Debug("run committed", "session", l.key, "run", run.ID(), "kind", run.Kind, "status", run.Status, "conversation", done.Conversation.ID,
		"messages", len(done.Messages), "replies", len(done.Replies), "took", l.deps.Store.Now().Sub(run.StartedAt))
	l.deps.Watcher.Committed(run, done)
	if l.deps.Strategy == Summarization && run.Window.Start != run.Conversation.Window.Start {
		l.cache.invalidate() // the window has another summary
	}
	l.cache.committed(run, done, l.router.setups.budget())
	l.addCalls(runs, run, done.Conversation.ID, calls)
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
