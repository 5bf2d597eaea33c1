package api

import (
	"context"
	"errors"
	"net/http"

	"parley/activity"
	"parley/channels/hosted"
	"parley/conversation"
)

// errLeft says that the question is left for the gateway's next start.
var errLeft = errors.New("the gateway ends before the answer")

// listener is shown how an answer comes on. An error of either method ends the
// wait.
type listener interface {
	progress(p activity.Progress) error
	Beat() error // nothing has happened for a while
}

// unheard is the listener of a client that is only told the answer.
type unheard struct{}

func (unheard) progress(activity.Progress) error { return nil }
func (unheard) Beat() error                      { return nil }

// await waits until a question that was taken is settled. Without an answer the
// error wraps errWaited, when the client prefers not to wait longer, errLeft, the
// cause of ctx, or what the listener returned.
func (c *Channel) await(ctx context.Context, q question, prefer preference, to listener) (a conversation.Answer, err error) {
	watch := c.Feed.Watch(q.key)
	defer watch.Close()
	waiting, cancel := prefer.limit(ctx)
	defer cancel()
	err = hosted.Follow(waiting, watch.C(), c.gate.Ending(), to.Beat, func(readStore bool) (done bool, err error) {
		run, working := watch.Now() // before the store, so that nothing falls between the two
		if readStore || !working || !run.Takes(a.ID) {
			if a, err = c.Store.Answer(ctx, channelName, q.source()); err != nil || a.State != conversation.AnswerWaiting {
				return true, err
			}
		}
		mine := working && run.Takes(a.ID)
		switch {
		case mine:
			return false, to.progress(run)
		case c.gate.IsEnding():
			return false, errLeft
		}
		return false, nil
	})
	return a, err
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
