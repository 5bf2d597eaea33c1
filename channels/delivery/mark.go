package delivery

import (
	"context"
	"errors"

	"parley/channels"
	"parley/cluster"
	"parley/conversation"
	"parley/conversation/retry"
)

// markParts stores that the platform has taken further parts, and that more follow. troubled
// says that a failed attempt is noted in the store, which it clears.
func (q *queue) markParts(ctx context.Context, d conversation.Delivery, troubled bool) bool {
	if troubled && !q.mark(ctx, "note the end of a trouble", func(ctx context.Context) error { return q.sender.outbox.Mark(ctx, d, conversation.MarkTried, "") }) {
		return false
	}
	return q.markTaken(ctx, d, "mark parts as sent", conversation.MarkPart)
}

// mark stores an outcome. It continues for a moment after ctx ends, and reports whether the outcome is stored.
func (q *queue) mark(ctx context.Context, what string, do func(context.Context) error) bool {
	ctx, cancel := channels.WithGrace(ctx)
	defer cancel()
	return q.persist(ctx, what, func() error { return do(ctx) }) == nil
}

// markTaken stores that the platform has taken parts, which are sent again if that is not stored. So it goes on when this node has
// lost the session, for as long as the gateway runs: another node that has the session may not have sent the parts yet, and this
// one may get it back.
func (q *queue) markTaken(ctx context.Context, d conversation.Delivery, what string, mark conversation.Mark) bool {
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(q.running, end)()
	return q.markOver(alive, d.ID, what, func(ctx context.Context) error {
		err := q.sender.outbox.Mark(ctx, d, mark, "")
		if errors.Is(err, cluster.ErrLost) {
			err = q.sender.outbox.Mark(cluster.WithoutMembership(ctx), d, mark, "")
		}
		return err
	})
}

// markOver is mark for a delivery that is finished or set aside. If the store is damaged, the sender
// remembers the delivery until the next start.
func (q *queue) markOver(ctx context.Context, id int64, what string, do func(context.Context) error) bool {
	return q.mark(ctx, what, func(ctx context.Context) error {
		err := do(ctx)
		if conversation.IsDamaged(err) {
			q.sender.unmarked.Store(id, true)
		}
		return err
	})
}

// persist retries a store operation until it succeeds. It returns nil if the database is damaged, so
// that the queue continues without the result.
func (q *queue) persist(ctx context.Context, what string, do func() error) error {
	err := retry.Persist(ctx, q.sender.log, what+" of "+string(q.key), do)
	if conversation.IsDamaged(err) {
		return nil
	}
	return err
}
