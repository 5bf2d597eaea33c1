package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Accept stores a batch in the order given, together with the channel's
// cursor when there is one. On return of nil all of it is on disk; an error
// means that none of it is. A message whose channel and SourceID are known
// already is dropped: platforms deliver twice.
func (s *Store) Accept(ctx context.Context, cursor *Cursor, batch ...Inbound) error {
	return s.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := millis(s.now())
		for _, in := range batch {
			if err := insertInbound(ctx, tx, in, now); err != nil {
				return fmt.Errorf("accept a message of %s: %w", in.Key, err)
			}
		}
		if cursor == nil {
			return nil
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO cursors (name, value, updated_at) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
			cursor.Name, cursor.Value, now)
		return err
	})
}

func insertInbound(ctx context.Context, tx *sql.Tx, in Inbound, now int64) error {
	channel := in.Key.Channel()
	_, err := tx.ExecContext(ctx, `
		INSERT INTO sessions (key, channel, created_at) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING`,
		string(in.Key), channel, now)
	if err != nil {
		return err
	}
	sender, err := json.Marshal(in.Sender)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO inbox (session_id, channel, source_id, address, sender, in_group, text, sent_at)
		VALUES ((SELECT id FROM sessions WHERE key = ?), ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (channel, source_id) DO NOTHING`,
		string(in.Key), channel, in.SourceID, in.Address, string(sender), in.Group, storable(in.Text), millis(in.At))
	return err
}

// Cursor is the value stored under a name, "" when there is none.
func (s *Store) Cursor(ctx context.Context, name string) (string, error) {
	var value string
	err := s.readers.QueryRowContext(ctx, `SELECT value FROM cursors WHERE name = ?`, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

// storable is text as JSON, SQLite and every model can carry it: valid UTF-8
// without NUL bytes.
func storable(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.ReplaceAll(text, "\x00", "\uFFFD")
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
