package conversation

import (
	"context"
	"database/sql"
	"time"

	"parley/conversation/internal/db"
)

// albumLife is for how long an album is remembered. Its messages come within
// seconds, or when the platform is read again after an outage.
const albumLife = 48 * time.Hour

// noteAlbum remembers the album of a message.
func noteAlbum(ctx context.Context, tx *sql.Tx, in Inbound, now int64) error {
	if in.Album == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM albums WHERE seen_at < ?`, now-albumLife.Milliseconds()); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO albums (channel, account, album, seen_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		in.Channel(), in.Account, in.Album, now)
	return err
}

// HasAlbum reports whether a message of an album was accepted from a bot in the last
// two days.
func (s *Store) HasAlbum(ctx context.Context, of Account, album string) (has bool, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM albums WHERE channel = ? AND account = ? AND album = ?)`,
		of.Channel, of.ID, album).Scan(&has)
	return has, db.Explain(err)
}
