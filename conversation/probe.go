package conversation

import (
	"context"
	"database/sql"

	"parley/conversation/internal/db"
)

// Probe writes something of no meaning, as durably as everything else. The
// error is why the store takes nothing: a full disk, a file that was taken
// away. A disk that hangs holds the probe up, past the end of ctx.
func (s *Store) Probe(ctx context.Context) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return setCursor(ctx, tx, Cursor{Name: "probe"}, db.Millis(s.now()))
	})
}
