package delivery

import (
	"context"

	"parley/channels"
	"parley/conversation"
	"parley/conversation/retry"
)

// markParts stores that the platform has taken further parts, and that more follow. troubled
// says that a failed attempt is noted in the store, which it clears.
func (q *queue) markParts(ctx context.Context, d conversation.Delivery, troubled bool) bool {
	if troubled && !q.mark(ctx, "note the end of a trouble", func(ctx context.Context) error { return q.sender.outbox.Mark(ctx, d, conversation.MarkTried, "") }) {
		return false
	}
	return q.mark(ctx, "mark parts as sent", func(ctx context.Context) error { return q.sender.outbox.Mark(ctx, d, conversation.MarkPart, "") })
}

// mark stores an outcome. It continues for a moment after ctx ends, since a part that is not marked
// is sent again.
func (q *queue) mark(ctx context.Context, what string, do func(context.Context) error) bool {
	ctx, cancel := channels.WithGrace(ctx)
	defer cancel()
	return q.persist(ctx, what, func() error { return do(ctx) }) == nil
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
