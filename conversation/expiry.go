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

// Expire returns the snapshot of a fresh conversation where the active one had rested
// for longer than limit when the first waiting message was written, and else the
// snapshot itself. A limit of 0 means never. A conversation without messages does not
// expire.
func (s *Store) Expire(snapshot Snapshot, limit time.Duration) Snapshot {
	old := snapshot.Conversation
	if limit == 0 || old.Messages == 0 || len(snapshot.Waiting) == 0 {
		return snapshot
	}
	rested := s.arrival(snapshot.Waiting[0]).Sub(old.UpdatedAt)
	if rested <= limit {
		return snapshot
	}
	return Snapshot{
		Waiting: snapshot.Waiting,
		Notes:   snapshot.Notes,
		Place:   snapshot.Place,
		More:    snapshot.More,
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
