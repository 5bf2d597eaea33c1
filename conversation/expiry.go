package conversation

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"
)

// A conversation that has rested for long is over, and the session's next
// message begins another. The commit that stores this message archives the old
// one; until then commands still find it, and a crash changes nothing.

// Expire gives the turn as it begins a fresh conversation when the present one
// had rested for longer than limit when the first waiting message was written,
// and otherwise the turn itself. A limit of 0 means never. A conversation in
// which nobody has written yet goes on.
func (s *Store) Expire(turn Turn, limit time.Duration) Turn {
	old := turn.Conversation
	if limit == 0 || old.Messages == 0 || len(turn.Waiting) == 0 {
		return turn
	}
	rested := s.arrival(turn.Waiting[0]).Sub(old.UpdatedAt)
	if rested <= limit {
		return turn
	}
	return Turn{
		Waiting: turn.Waiting,
		Notes:   turn.Notes,
		Place:   turn.Place,
		More:    turn.More,
		Conversation: Conversation{
			ID:      uuid.Must(uuid.NewV7()).String(), // crypto/rand never fails
			Key:     old.Key,
			Active:  true,
			Rested:  rested,
			session: old.session,
		},
	}
}

// arrival is when a message was written. A platform's clock that is ahead, or
// says nothing, does not count.
func (s *Store) arrival(in Inbound) time.Time {
	if now := s.now(); in.At.IsZero() || in.At.After(now) {
		return now
	}
	return in.At
}

// succeed stores a conversation that follows one at rest, which is archived. Any
// other is given as it is.
func succeed(ctx context.Context, tx *sql.Tx, c Conversation, session int64, at time.Time) (Conversation, error) {
	if c.Rested == 0 {
		return c, nil
	}
	if err := archiveActive(ctx, tx, session); err != nil {
		return c, err
	}
	c.Rested, c.session = 0, session
	return insertConversation(ctx, tx, c, at)
}
