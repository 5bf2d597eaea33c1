package agentloop

import (
	"context"
	"slices"
	"sync"
	"time"

	"parley/agentloop/command"
	"parley/conversation"
	"parley/conversation/approvals"
)

// questions are the sessions in which a run waits for an answer, as far as this process has
// seen them. The store has the questions themselves.
type questions struct {
	mu    sync.Mutex
	keys  map[conversation.Key]bool
	asked chan struct{} // holds one token when a session was added
}

func newQuestions() *questions {
	return &questions{keys: map[conversation.Key]bool{}, asked: make(chan struct{}, 1)}
}

func (q *questions) add(key conversation.Key) {
	q.mu.Lock()
	q.keys[key] = true
	q.mu.Unlock()
	offer(q.asked)
}

func (q *questions) has(key conversation.Key) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys[key]
}

// replace sets the sessions, and returns those that are not among them any more.
func (q *questions) replace(keys map[conversation.Key]bool) (closed []conversation.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key := range q.keys {
		if !keys[key] {
			closed = append(closed, key)
		}
	}
	q.keys = keys
	return closed
}

// answerCheck is how often open questions are read: another process may have answered them.
const answerCheck = 2 * time.Second

// watchQuestions closes questions whose time is over, and wakes the loops of sessions that
// have no open question any more, until ctx ends.
func (r *Router) watchQuestions(ctx context.Context) {
	for {
		next, err := r.checkQuestions(ctx)
		if err != nil && ctx.Err() == nil {
			r.deps.Log.Warn("open questions not read", "error", err)
		}
		if !r.sleepUntil(ctx, next, err != nil) {
			return
		}
	}
}

// sleepUntil waits until questions have to be checked again, and returns false when ctx has
// ended. next is when one expires, zero for none; after a failure it may be over already.
func (r *Router) sleepUntil(ctx context.Context, next time.Time, failed bool) bool {
	var alarm <-chan time.Time
	if !next.IsZero() || failed {
		wait := answerCheck
		if left := next.Sub(r.deps.Store.Now()); !failed && !next.IsZero() && left < wait {
			wait = max(left, time.Millisecond)
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-alarm:
	case <-r.questions.asked:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// checkQuestions closes the questions whose time is over and wakes the loops that may go on.
// It returns when the next question expires.
func (r *Router) checkQuestions(ctx context.Context) (next time.Time, err error) {
	all, err := approvals.New(r.deps.Store).Open(ctx, "")
	if err != nil {
		return next, err
	}
	now, over := r.deps.Store.Now(), false
	open := map[conversation.Key]bool{}
	for _, q := range all {
		if !r.serves(q.To) {
			continue
		}
		open[q.Session] = true
		over = over || !now.Before(q.ExpiresAt)
		if next.IsZero() || q.ExpiresAt.Before(next) {
			next = q.ExpiresAt
		}
	}
	for _, key := range r.questions.replace(open) {
		r.Wake(key)
	}
	if !over {
		return next, nil
	}
	return next, r.expireQuestions(ctx)
}

// expireQuestions closes the questions whose time is over, tells their chats and wakes their
// loops.
func (r *Router) expireQuestions(ctx context.Context) error {
	expired, due, err := approvals.New(r.deps.Store).Expire(ctx, r.serves, command.ExpiredApprovals)
	if err != nil {
		return err
	}
	for _, q := range expired {
		r.deps.Log.Info("approval expired", "session", q.Session, "run", q.Run, "tool", q.Tool)
	}
	for _, d := range due {
		r.deps.Deliver([]conversation.Delivery{d})
	}
	for _, q := range expired {
		r.deps.Watcher.Asked(q.Session)
		r.Wake(q.Session)
	}
	return nil
}

// serves reports whether this process answers what comes to an account.
func (r *Router) serves(to conversation.Account) bool {
	return len(r.served) == 0 || slices.ContainsFunc(r.served, func(a conversation.Account) bool { return a.Serves(to) })
}
