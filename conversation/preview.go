package conversation

import (
	"context"
	"database/sql"
	"errors"

	"parley/conversation/internal/db"
)

// Preview returns the platform's id of the message that shows the answer of a run while it is written, "" for none.
func (s *Store) Preview(ctx context.Context, run int64) (id string, err error) {
	err = db.ShortRow(ctx, s.db, `SELECT preview FROM inbox WHERE id = ?`, run).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, db.Explain(err)
}

// SetPreview stores which message shows the answer of a run, in place of the message from; "" stands for none. The caller
// has the session's lock. SetPreview stores nothing and returns an error if another process works the session, as Commit does,
// and ErrSettled if the store has another message or the run's replies are sent.
func (s *Store) SetPreview(ctx context.Context, key Key, run int64, from, to string) error {
	return s.db.WriteOwned(ctx, string(key), func(ctx context.Context, tx db.Tx) error {
		return db.Require(ctx, tx, func() error { return ErrSettled }, `
			UPDATE inbox SET preview = ? WHERE id = ? AND preview = ? AND (run_id IS NULL OR EXISTS (
				SELECT 1 FROM outbox o WHERE o.session_id = inbox.session_id AND o.run_id = inbox.id AND o.state = 'due'))`, to, run, from)
	})
}

// IsUnderWay reports whether a run has begun with a message that was written in a place, or will begin with it, and no answer is stored.
func (s *Store) IsUnderWay(ctx context.Context, place Key, run int64) (is bool, err error) {
	err = db.ShortRow(ctx, s.db, `SELECT EXISTS (
		SELECT 1 FROM inbox i JOIN sessions s ON s.id = i.session_id WHERE i.id = ? AND i.run_id IS NULL AND coalesce(i.origin, s.key) = ?)`, run, string(place)).Scan(&is)
	return is, db.Explain(err)
}
