package discord

import (
	"context"

	"parley/conversation"
)

// changed takes an edit. Discord also updates messages that nobody edited, for
// instance when it has looked at a link. Nothing was ever taken from places that
// are not known, and who was put out meanwhile is not heard any more.
func (in *intake) changed(ctx context.Context, m *message, p *place) error {
	at := m.editedAt()
	if !in.knows(p) || at.IsZero() || m.Author.ID == in.me.ID || !m.isWritten() {
		return nil
	}
	if ok, _, err := in.admits(ctx, m.author(), m.Member, p); err != nil || !ok {
		return err
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	return unlessDamaged(conversation.Persist(ctx, in.Log, "store an edit", func() error {
		return in.Store.Edit(ctx, in.Account(), m.ID, in.text(m, p), at)
	}))
}

// deleted takes messages back that were deleted before they were answered.
func (in *intake) deleted(ctx context.Context, p *place, ids ...string) error {
	if !in.knows(p) {
		return nil
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		err := conversation.Persist(ctx, in.Log, "store a deletion", func() error { return in.Store.Withdraw(ctx, in.Account(), id) })
		if unlessDamaged(err) != nil {
			return err
		}
	}
	return nil
}
