package conversation

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"parley/conversation/state"
)

// A conversation that has rested for long, or has very many messages, is over, and the
// session's next message begins another. The commit that stores this message archives the old
// one; until then commands still find it, and a crash changes nothing.

// Limits say when a conversation is over, and what goes over to the next one.
type Limits struct {
	Rest     time.Duration // how long it may rest; 0 = for ever
	Messages int64         // how many it may have; 0 = any number
	Carry    state.Carry
}

// Expire returns the snapshot of a fresh conversation where the active one is over by
// the limits, and else the snapshot itself. What counts is when the first waiting
// message was written. A conversation without messages does not expire, nor one of which
// the first waiting message replaces a turn.
func (s *Store) Expire(snapshot Snapshot, limits Limits) Snapshot {
	old := snapshot.Conversation
	if old.Messages == 0 || len(snapshot.Waiting) == 0 || snapshot.Waiting[0].Replaces.Conversation == old.ID {
		return snapshot
	}
	next := Conversation{Key: old.Key, Active: true, State: old.State.Carried(limits.Carry), session: old.session}
	switch rested := s.arrival(snapshot.Waiting[0]).Sub(old.UpdatedAt); {
	case limits.Rest > 0 && rested > limits.Rest:
		next.Rested = rested
	case limits.Messages > 0 && old.Messages >= limits.Messages:
		next.Filled = old.Messages
	default:
		return snapshot
	}
	next.ID = uuid.Must(uuid.NewV7()).String() // crypto/rand never fails
	return Snapshot{Waiting: snapshot.Waiting, Notes: snapshot.Notes, Place: snapshot.Place, More: snapshot.More, Conversation: next}
}

// arrival is when a message was written. A platform's clock that is ahead, or
// says nothing, does not count.
func (s *Store) arrival(in Inbound) time.Time {
	if now := s.now(); in.At.IsZero() || in.At.After(now) {
		return now
	}
	return in.At
}

// succeed stores a conversation that follows one that is over, which is archived. Any
// other is given as it is. The instructions are those that the session has by now.
func succeed(ctx context.Context, tx *sql.Tx, c Conversation, session int64, at time.Time) (Conversation, error) {
	if !c.Succeeds() {
		return c, nil
	}
	old, _, err := active(ctx, tx, c.Key)
	if err != nil {
		return c, err
	}
	if err := archiveActive(ctx, tx, session); err != nil {
		return c, err
	}
	c.State.Instructions = old.State.Instructions
	c.Rested, c.Filled, c.session = 0, 0, session
	return insertConversation(ctx, tx, c, at)
}
