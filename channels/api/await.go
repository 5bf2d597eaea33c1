package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"parley/activity"
	"parley/conversation"
)

// lookAgain is after how long the store is read although nobody has said that
// anything is new there, and a stream shows that it is alive: another process
// may have worked the session.
const lookAgain = 15 * time.Second

// errLeft says that the question is left for the gateway's next start.
var errLeft = errors.New("the gateway ends before the answer")

// listener is shown how an answer comes on.
type listener interface {
	progress(p activity.Progress) error
	beat() error // nothing has happened for a while
}

// await waits until a question that was taken is settled. Without an answer the
// error wraps errWaited, when over has come, errLeft, the cause of ctx, or what
// the listener gives, who may be nil.
func (c *Channel) await(ctx context.Context, q question, over <-chan time.Time, to listener) (conversation.Answer, error) {
	watch := c.Feed.Watch(q.key)
	defer watch.Close()
	alive := time.NewTicker(lookAgain)
	defer alive.Stop()
	ends := c.gate.Ending()
	var a conversation.Answer
	for look := true; ; {
		run, working := watch.Now() // before the store, so that nothing falls between the two
		if look || !working || !run.Takes(a.ID) {
			var err error
			if a, err = c.Store.Answer(ctx, channelName, q.source()); err != nil || a.State != conversation.AnswerWaiting {
				return a, err
			}
		}
		mine := working && run.Takes(a.ID)
		if !mine && c.gate.IsEnding() {
			return a, errLeft
		}
		if mine && to != nil {
			if err := to.progress(run); err != nil {
				return a, err
			}
		}
		look = false
		select {
		case <-watch.C():
		case <-alive.C:
			look = true
			if to != nil {
				if err := to.beat(); err != nil {
					return a, err
				}
			}
		case <-ends:
			ends = nil
		case <-over:
			return a, errWaited
		case <-ctx.Done():
			return a, context.Cause(ctx)
		}
	}
}

// unanswered gives the end of an await without an answer as a problem.
func (c *Channel) unanswered(ctx context.Context, q question, err error) error {
	switch {
	case errors.Is(err, errLeft), c.gate.IsEnding():
		return later(restartTime, problem(http.StatusServiceUnavailable,
			"The gateway is ending. The message is stored and will be answered at its next start: ask at %s, or send it again with the Idempotency-Key %s.", q.location(), q.id))
	case errors.Is(err, conversation.ErrNoAnswer):
		return problem(http.StatusNotFound, "No message with this id was sent to the session, or so long ago that it is forgotten.")
	}
	return c.problemOf(ctx, err)
}
