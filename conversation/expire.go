package conversation

import (
	"context"
	"time"

	"github.com/google/uuid"

	"parley/conversation/internal/db"
	"parley/conversation/state"
)

// A conversation expires when it was not used for long or has very many messages. The
// session's next message then begins another one. The commit that stores this message
// archives the old one; until then commands still find it, and a crash changes nothing.

// Expire returns the snapshot of a new conversation if the active one has expired by the
// limits, and otherwise the snapshot itself. Idle time ends when the first waiting message
// was written; now is the time by the store's clock. A conversation without messages does not expire, and
// neither does one that has the turn which the first waiting message replaces.
func (t Snapshot) Expire(limits state.Limits, now time.Time) Snapshot {
	old := t.Conversation
	if old.Messages == 0 || len(t.Waiting) == 0 || t.Waiting[0].Replaces.Conversation == old.ID {
		return t
	}
	next := Conversation{Key: old.Key, Active: true, State: old.State.Carried(limits.Carry), Model: old.Model, Agent: old.Agent, Fallback: old.Fallback, session: old.session}
	switch idle := arrival(t.Waiting[0], now).Sub(old.UpdatedAt); {
	case limits.Idle > 0 && idle > limits.Idle:
		next.Idle = idle
	case limits.Messages > 0 && old.Messages >= limits.Messages:
		next.Filled = old.Messages
	default:
		return t
	}
	next.ID = uuid.Must(uuid.NewV7()).String() // crypto/rand never fails
	return Snapshot{Waiting: t.Waiting, Notes: t.Notes, Place: t.Place, More: t.More, Conversation: next}
}

// arrival returns when a message was written: now, if the platform does not say it or
// names a time in the future.
func arrival(in Inbound, now time.Time) time.Time {
	if in.At.IsZero() || in.At.After(now) {
		return now
	}
	return in.At
}

// succeed archives the active conversation and stores the one that follows it, with the
// instructions that the session has by now. It returns any other conversation unchanged.
func succeed(ctx context.Context, tx db.Tx, c Conversation, session int64, at time.Time) (Conversation, error) {
	if !c.Succeeds() {
		return c, nil
	}
	old, err := activeToChange(ctx, tx, c.Key)
	if err != nil {
		return c, err
	}
	if err := archiveActive(ctx, tx, session); err != nil {
		return c, err
	}
	c.State.Instructions = old.State.Instructions
	c.Idle, c.Filled, c.session = 0, 0, session
	return insertConversation(ctx, tx, c, at)
}
