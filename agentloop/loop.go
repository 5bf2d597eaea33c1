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
	*Router
	key    conversation.Key
	mail   chan struct{}          // there is new inbound
	stop   chan struct{}          // a /stop is among it
	cancel atomic.Pointer[func()] // ends the run under way, nil when there is none
	end    chan struct{}          // the router has forgotten the loop
	last   conversation.Turn      // what was read of the conversation, to read only what is new
	took   int                    // messages that the latest step settled
}

func newLoop(r *Router, key conversation.Key) *loop {
	return &loop{
		Router: r,
		key:    key,
		mail:   make(chan struct{}, 1),
		stop:   make(chan struct{}, 1),
		end:    make(chan struct{}),
	}
}

// post is called by the router's goroutine.
func (l *loop) post(s signal) {
	if s.stop {
		offer(l.stop)
		if cancel := l.cancel.Load(); cancel != nil {
			(*cancel)()
		}
	}
	offer(l.mail)
}

// mayEnd is called by the router's goroutine when the loop has asked to end.
// No mail can come in between, since the same goroutine posts it.
func (l *loop) mayEnd() bool {
	if len(l.mail) > 0 {
		return false
	}
	close(l.end)
	return true
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
	unlock, _, err := conversation.WaitLock(intake, l.Log, l.Store.Lock, l.key)
	if err != nil {
		return
	}
	defer unlock()
	idle := time.NewTimer(l.LoopIdleTimeout)
	defer idle.Stop()
	for {
		select {
		case <-l.mail:
			l.work(intake, runs)
			idle.Reset(l.LoopIdleTimeout)
		case <-idle.C:
			if l.askToEnd(intake) {
				return
			}
			idle.Reset(l.LoopIdleTimeout)
		case <-intake.Done():
			return
		}
	}
}

// askToEnd reports whether the router has forgotten the loop.
func (l *loop) askToEnd(intake context.Context) bool {
	select {
	case l.idle <- l:
	case <-intake.Done():
		return true
	}
	select {
	case <-l.end:
		return true
	case <-intake.Done():
		return true
	case <-l.mail:
		offer(l.mail) // work came first; let run see it
		return false
	}
}

// work takes steps until nothing waits.
func (l *loop) work(intake, runs context.Context) {
	for intake.Err() == nil {
		turn, err := l.begin(intake)
		if err != nil || len(turn.Waiting) == 0 {
			return
		}
		l.took = 0
		if !l.step(intake, runs, turn) {
			return
		}
		if l.took >= len(turn.Waiting) && !turn.More {
			return // what has come since has sent mail
		}
	}
}

// begin reads the turn, again and again while the store fails.
func (l *loop) begin(intake context.Context) (conversation.Turn, error) {
	select {
	case <-l.stop: // the /stop itself is in the inbox, where step finds it
	default:
	}
	turn, err := l.turn(intake, l.Budget, l.last)
	if len(turn.Waiting) > 0 {
		l.last = turn
	}
	return turn, err
}

func (l *loop) turn(ctx context.Context, budget int, previous conversation.Turn) (turn conversation.Turn, err error) {
	err = l.persist(ctx, "read the session", func() error {
		turn, err = l.Store.Continue(ctx, l.key, budget, previous)
		return err
	})
	return turn, err
}

// step does the first thing that waits: a command, or a run that answers every
// message up to the next command. It reports whether the loop may go on.
func (l *loop) step(intake, runs context.Context, turn conversation.Turn) bool {
	if command, is := parseCommand(turn.Waiting[0].Text); is {
		return l.command(intake, runs, turn, command)
	}
	if n := settledByStop(turn.Waiting); n > 0 {
		return l.commit(runs, l.stoppedRun(question{turn: turn}, turn.Waiting[:n], answer{}, time.Now()))
	}
	waited, ok := l.takeSlot(intake)
	if !ok {
		return intake.Err() == nil
	}
	defer func() { <-l.slots }()
	if waited { // and more may have come meanwhile
		var err error
		if turn, err = l.begin(intake); err != nil || len(turn.Waiting) == 0 {
			return false
		}
		if settledByStop(turn.Waiting) > 0 {
			return true
		}
	}
	turn.Waiting = untilCommand(turn.Waiting)
	if len(turn.Waiting) == 0 {
		return true
	}
	return l.answerNew(runs, turn)
}

// takeSlot waits for one of the model calls that may be under way at once. A
// /stop cuts the wait short. waited says that there was none at once.
func (l *loop) takeSlot(intake context.Context) (waited, ok bool) {
	select {
	case l.slots <- struct{}{}:
		return false, true
	default:
	}
	select {
	case l.slots <- struct{}{}:
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
func (l *loop) commit(runs context.Context, run conversation.Run) bool {
	var due []conversation.Delivery
	err := l.persist(runs, "store a run", func() (err error) {
		due, err = l.Store.Commit(runs, run)
		if errors.Is(err, conversation.ErrSettled) {
			due, err = l.Store.Deliveries(runs, l.key, len(run.Replies)) // an earlier try did succeed
		}
		return err
	})
	if err != nil {
		return false
	}
	if run.Effect != (conversation.Effect{}) {
		l.last = conversation.Turn{}
	}
	l.took += len(run.Took)
	if len(due) > 0 {
		l.Deliver(due)
	}
	return true
}

// persist calls do until the store lets it succeed, or ctx ends.
func (l *loop) persist(ctx context.Context, what string, do func() error) error {
	return conversation.Persist(ctx, l.Log, what+" of "+string(l.key), do)
}
