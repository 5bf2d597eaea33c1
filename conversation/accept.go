package conversation

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/uploads"
)

// Accept stores a batch in the order given, together with how far the channel
// has read its platform. On return of nil all of it is on disk; an error means
// that none of it is, but for what comes back beside an error of IsDamaged. A message
// whose channel, Account and SourceID are known already is dropped: platforms
// deliver twice. So is one of a group that came to another bot already. What was not
// dropped comes back with its ID.
func (s *Store) Accept(ctx context.Context, cursors []Cursor, batch ...Inbound) (stored []Inbound, err error) {
	stored, err = s.accept(ctx, cursors, batch)
	if IsDamaged(err) {
		return s.acceptAnyhow(ctx, cursors, batch)
	}
	return stored, err
}

func (s *Store) accept(ctx context.Context, cursors []Cursor, batch []Inbound) (stored []Inbound, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := db.Millis(s.now())
		stored = make([]Inbound, 0, len(batch))
		for _, in := range batch {
			in, err := insertInbound(ctx, tx, in, now)
			if err != nil {
				return fmt.Errorf("accept a message of %s: %w", in.Key, err)
			}
			if in.ID != 0 {
				stored = append(stored, in)
			}
		}
		for _, c := range cursors {
			if err := setCursor(ctx, tx, c, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return stored, nil
}

// insertInbound stores a message and returns it as it is stored; its ID is 0 if it was
// stored before.
func insertInbound(ctx context.Context, tx *sql.Tx, in Inbound, now int64) (Inbound, error) {
	session, key, err := rows.EnterSession(ctx, tx, string(in.Key), db.Text(in.Place), now)
	if err != nil {
		return in, err
	}
	in.Origin, in.Key = cmp.Or(in.Origin, in.Key), Key(key)
	sender, err := json.Marshal(in.Sender)
	if err != nil {
		return in, err
	}
	attachments, err := jsonOrNull(in.Attachments, len(in.Attachments) == 0)
	if err != nil {
		return in, err
	}
	if in.Options.Metadata, err = in.Options.Metadata.checked(); err != nil {
		return in, err
	}
	options, err := jsonOrNull(in.Options, in.Options.IsZero())
	if err != nil {
		return in, err
	}
	fingerprint := ""
	if in.Keep {
		if fingerprint, err = in.Fingerprint(); err != nil {
			return in, err
		}
	}
	origin := ""
	if in.Origin != in.Key {
		origin = string(in.Origin)
	}
	in.Text, in.Title, in.Album, in.Overheard = db.Text(in.Text), db.Text(in.Title), db.Text(in.Album), db.Text(in.Overheard)
	if in.At.IsZero() {
		in.At = db.FromMillis(now)
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO inbox (channel, account, source_id, sent_at, in_group, session_id, origin, address, sender, title, text, never_command, attachments, fingerprint,
			keep, replaces_conversation, replaces_seq, options, album, quiet, overheard)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21 WHERE NOT `+knownByAnother+`
		ON CONFLICT (channel, source_id, account) DO NOTHING`,
		in.Channel(), in.Account, in.SourceID, db.Millis(in.At), in.Group,
		session, db.Nullable(origin), in.Address, string(sender), in.Title, in.Text, in.NeverCommand, attachments, db.Nullable(fingerprint),
		in.Keep, db.Nullable(in.Replaces.Conversation), sql.NullInt64{Int64: in.Replaces.Seq, Valid: in.Replaces.Seq != 0}, options,
		db.Nullable(in.Album), in.Quiet.Milliseconds(), db.Nullable(in.Overheard))
	if err != nil {
		return in, err
	}
	if in.ID, err = insertedID(result); err != nil || in.ID == 0 {
		return in, err
	}
	if err := noteAlbum(ctx, tx, in, now); err != nil {
		return in, err
	}
	return in, moveUploads(ctx, tx, in, uploads.Ready, uploads.Accepted)
}

// knownByAnother is the condition that a message with the channel ?1, the account
// ?2, the source id ?3, the time ?4 and ?5 for a group is stored as one that came
// to another bot. Private chats are numbered for each bot, so there the same id
// is of another message, unless nobody knows the bot; in groups mostly for all
// bots together, and who has read a message there need not answer it twice.
const knownByAnother = `EXISTS (
	SELECT 1 FROM inbox WHERE channel = ?1 AND source_id = ?3 AND account <> ?2 AND sent_at = ?4 AND (account = '' OR ?2 = '' OR in_group AND ?5))`

// insertedID returns the id of the row that an INSERT has added, or 0 if there was a
// conflict.
func insertedID(result sql.Result) (int64, error) {
	if added, err := result.RowsAffected(); err != nil || added == 0 {
		return 0, err
	}
	return result.LastInsertId()
}

// Cursor is how far a channel has read its platform, stored in the same
// transaction as the messages up to it.
type Cursor struct {
	Name  string // "telegram:123456", one for each account or place
	Value string // for example the next update's offset
}

// Cursor returns the value that is stored under a name, or "".
func (s *Store) Cursor(ctx context.Context, name string) (string, error) {
	var value string
	err := s.db.QueryRowContext(ctx, `SELECT value FROM cursors WHERE name = ?`, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, db.Explain(err)
}

// Cursors returns the cursors whose names begin with a prefix, ordered by name.
func (s *Store) Cursors(ctx context.Context, prefix string) ([]Cursor, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT name, value FROM cursors WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name`, prefix)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Cursor
	for rows.Next() {
		var c Cursor
		if err := rows.Scan(&c.Name, &c.Value); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, db.Explain(rows.Err())
}

func setCursor(ctx context.Context, tx *sql.Tx, c Cursor, now int64) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO cursors (name, value, updated_at) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
		c.Name, c.Value, now)
	return err
}

// moveUploads puts the uploads that an inbound names from one state into the next.
func moveUploads(ctx context.Context, tx *sql.Tx, in Inbound, from, to uploads.State) error {
	refs := make([]string, len(in.Attachments))
	for i, file := range in.Attachments {
		refs[i] = file.Ref
	}
	return uploads.Move(ctx, tx, string(in.Key), refs, from, to)
}
