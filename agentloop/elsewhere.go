package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"parley/cluster"
	"parley/conversation"
	"parley/conversation/retry"
	"parley/internal/clock"
)

// Where several nodes share a database, a session is worked by one of them, while messages for it may arrive
// at all. A loop whose session another node works tells that node and ends. Notices may
// get lost, so each node also looks every second for messages that wait in sessions that nobody else works.

const (
	sessionTopic = "session"
	sweepEvery   = time.Second
	claimRetry   = 200 * time.Millisecond // while tasks wait for a session that another node works
)

// request is what a node tells the one that works a session.
type request struct {
	Session conversation.Key `json:"session"`
	Placed  int64            `json:"placed,omitempty"`  // the node that is to work the session if none does
	Stop    bool             `json:"stop,omitempty"`    // a /stop is among what waits
	Edited  bool             `json:"edited,omitempty"`  // a running loop must read the store again; none is started for this
	Deleted string           `json:"deleted,omitempty"` // source id of the message that was withdrawn; "" = none
	Cancel  int64            `json:"cancel,omitempty"`  // the run to stop; 0 = none
	Ends    time.Duration    `json:"ends,omitempty"`    // how long a change that ends the conversation still waits for the session; 0 = there is none
}

// lock takes the session. ok is false when the loop has ended, because intake has or because another
// node works the session.
func (l *loop) lock(intake context.Context) (unlock func(), ok bool) {
	if l.deps.Store.Node() == nil {
		unlock, _, err := retry.Lock(intake, l.deps.Log, l.deps.Store.Lock, l.key)
		return unlock, err == nil
	}
	failing := false
	placed := l.sendTo
	if l.sendTo = 0; placed == 0 {
		placed = l.router.placedElsewhere(l.key, l.chosen)
	}
	for ; ; placed = 0 {
		var err error
		if placed == 0 {
			if unlock, err = l.deps.Store.Lock(l.key); err == nil {
				return unlock, true
			}
		}
		locked := new(conversation.LockedError)
		if placed != 0 || errors.As(err, &locked) {
			l.elsewhere = true
			if l.forward(placed) && l.askToEnd(intake) {
				return nil, false
			}
			l.elsewhere = false
		} else if !failing {
			failing = true
			l.deps.Log.Warn("session not taken", "session", l.key, "error", err)
		}
		if clock.Sleep(intake, claimRetry) != nil {
			return nil, false
		}
	}
}

// forward tells the node that works the session to answer what waits. It reports whether the loop
// has nothing else to do.
func (l *loop) forward(placed int64) (done bool) {
	news, tasks := l.mail.forward()
	stop := false
	select {
	case <-l.stop:
		stop = true
	default:
	}
	if news || stop {
		l.router.swept.forward(l.key)
		l.router.publish(request{Session: l.key, Placed: placed, Stop: stop})
	}
	if tasks {
		offer(l.mail.ready)
	}
	if placed == 0 && tasks {
		l.askForEnd()
	}
	return !tasks
}

// askForEnd tells the node that works the session that a task waits which ends the conversation. That node keeps the session while a
// call of a tool is held open there, so it ends the run of the call.
func (l *loop) askForEnd() {
	if t := l.mail.untoldEnd(); t != nil {
		waits := time.Minute
		if until, limited := t.ctx.Deadline(); limited {
			waits = max(time.Until(until), time.Millisecond)
		}
		l.router.publish(request{Session: l.key, Ends: waits})
	}
}

// giveUp runs the waiting tasks and prepares the loop to give up its session to the node to, or to any
// node if to is 0. It reports whether the loop continues, in order to notify that node.
func (l *loop) giveUp(intake, runs context.Context, to int64) (again bool) {
	l.runTasks(runs)
	l.forget()
	l.sendTo = to
	return intake.Err() == nil
}

// hasNothingLeft reports whether the loop knows of nothing that waits for an answer.
func (l *loop) hasNothingLeft() bool {
	return len(l.mail.ready) == 0 && l.cache.valid && len(l.cache.snapshot.Waiting) == 0
}

// forget drops what the loop knows of a session that another node may work meanwhile.
func (l *loop) forget() {
	l.forgetHeld()
	l.cache.invalidate()
	l.unfinished = unfinished{}
	l.mail.put(signal{key: l.key}) // reads the store
}

// placedElsewhere returns the node that should work a session. It returns 0 if that is this node, or if
// any node may work the session. chosen reports that another node has chosen this one. A node that hands
// its work over works only the sessions that it still owns.
func (r *Router) placedElsewhere(key conversation.Key, chosen bool) int64 {
	node := r.deps.Store.Node()
	if node.Owns(string(key)) {
		return 0
	}
	handsOver, _ := node.HandsOver()
	isSpread := r.deps.Spread != nil && r.deps.Spread(key)
	if !handsOver && (chosen || !isSpread || r.swept.has(key)) {
		return 0
	}
	if place, ok := node.Place(string(key)); ok && place.ID != node.ID() {
		return place.ID
	}
	return 0
}

func (r *Router) publish(q request) {
	body, err := json.Marshal(q)
	if err == nil {
		err = r.deps.Store.Node().Publish(sessionTopic, string(body))
	}
	if err != nil {
		r.deps.Log.Warn("other nodes not told", "session", q.Session, "error", err)
	}
}

// isElsewhere reports whether this process is one of several nodes and does not work a session.
func (r *Router) isElsewhere(key conversation.Key) bool {
	node := r.deps.Store.Node()
	return node != nil && !node.Owns(string(key))
}

// receive passes on what another node has published. It does not block: what does not fit
// into the queue is found by the sweep.
func (r *Router) receive(notice cluster.Notice) {
	var q request
	if err := json.Unmarshal([]byte(notice.Body), &q); err != nil {
		return // of another version
	}
	node := r.deps.Store.Node()
	if !node.Owns(string(q.Session)) && q.Placed != node.ID() {
		return
	}
	s := signal{key: q.Session, stop: q.Stop, edited: q.Edited, deleted: q.Deleted, cancel: q.Cancel, chosen: q.Placed == node.ID()}
	if q.Ends > 0 {
		s.task = newEnding(q.Ends)
	}
	select {
	case r.signals <- s:
	default:
	}
}

// newEnding returns a task that ends the run that waits for the answer of a person, and does nothing else. It is dropped if it has not
// begun within a time.
func newEnding(within time.Duration) *task {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	end := func(context.Context) error { cancel(); return nil }
	return &task{ctx: ctx, do: end, ends: true, result: make(chan error, 1)}
}

// sweep wakes the loops of sessions in which messages wait and which no other node works, every second
// until ctx ends, and when a node has left or died.
func (r *Router) sweep(ctx context.Context, scopes []conversation.Scope) {
	node := r.deps.Store.Node()
	changed := make(chan struct{}, 1)
	node.OnChange(func() { offer(changed) })
	due := time.NewTicker(sweepEvery)
	defer due.Stop()
	failing := false
	for {
		regular := false
		select {
		case <-due.C:
			regular = true
		case <-changed:
		case <-ctx.Done():
			return
		}
		if handsOver, _ := node.HandsOver(); handsOver || !node.Valid() {
			continue
		}
		err := r.sweepOnce(ctx, scopes, regular)
		if err != nil && !failing && ctx.Err() == nil {
			r.deps.Log.Warn("waiting messages not read", "error", err)
		}
		failing = err != nil
	}
}

// sweepOnce looks for waiting messages and wakes their loops. Only regular sweeps are counted in
// waited.sweeps.
func (r *Router) sweepOnce(ctx context.Context, scopes []conversation.Scope, regular bool) error {
	found := map[conversation.Key][]conversation.Revision{}
	for _, scope := range scopes {
		list, err := r.deps.Store.Waiting(ctx, scope)
		if err != nil {
			return err
		}
		for _, w := range list {
			found[w.Key] = append(found[w.Key], w.Inbound...)
		}
	}
	waiting := make([]string, 0, len(found))
	for key := range found {
		waiting = append(waiting, string(key))
	}
	free, err := r.deps.Store.Node().Claimable(ctx, waiting)
	if err != nil {
		return err
	}
	waits := r.swept.look(free, found, regular)
	for _, session := range free {
		key := conversation.Key(session.Key)
		if w := waits[key]; w.sweeps > 1 || r.takesAtOnce(key, session.Left) {
			r.signal(signal{key: key, found: found[key], waited: w})
		}
	}
	return nil
}

// takesAtOnce reports whether this node takes a session as soon as a sweep finds it for the first time,
// instead of at the next sweep. It must not where another node may be about to take the session: the one
// it is placed on, or the one at which its message has arrived. left reports that the node that worked the
// session is dead. A session that this node has forwarded, and whose owner has given it up since, is taken.
func (r *Router) takesAtOnce(key conversation.Key, left bool) bool {
	if r.deps.Spread != nil && r.deps.Spread(key) {
		return r.placedElsewhere(key, false) == 0
	}
	return left || r.swept.wasForwarded(key)
}
