package conversation

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/reminderrows"
	"parley/conversation/internal/talkrows"
	"parley/conversation/internal/uploads"
)

// Accept stores a batch in the order given, together with how far the channel has read its
// platform. If the error is nil, all of it is on disk. Otherwise nothing is stored, except
// for the messages that are returned with an error that IsDamaged recognizes. Accept drops
// messages that it has stored before, by channel, Account and SourceID, because platforms
// deliver twice, and messages of a group that another bot has received. It returns the
// others with their IDs.
//
// Nearly all messages are of sessions that this process has seen before, and that nobody has moved. So Accept stores these on the
// condition that this holds, which takes one round trip to a server, and else anew.
func (s *Store) Accept(ctx context.Context, cursors []Cursor, batch ...Inbound) (stored []Inbound, err error) {
	stored, err = s.accept(ctx, cursors, batch)
	if errors.Is(err, errNotKnown) {
		s.known.remove(batch)
		stored, err = s.accept(ctx, cursors, batch)
	}
	if IsDamaged(err) {
		return s.acceptDespiteDamage(ctx, cursors, batch)
	}
	return stored, err
}

func (s *Store) accept(ctx context.Context, cursors []Cursor, batch []Inbound) (stored []Inbound, err error) {
	taken, known := make([]accepted, len(batch)), s.known.all(batch)
	var parts []db.Part
	takesOfOthers := slices.ContainsFunc(batch, func(in Inbound) bool { return in.Talk.Of != "" })
	for i, in := range batch {
		session := string(in.Key)
		if takesOfOthers { // the talk that a message follows, which may have been in another place, is stored first
			session = string(batch[0].Key)
		}
		parts = append(parts, db.Part{Session: session, Do: func(ctx context.Context, tx db.Tx) (err error) {
			taken[i] = accepted{Inbound: in, known: known}
			if err = s.acceptInbound(ctx, tx, &taken[i], db.Millis(s.Now())); err != nil {
				err = fmt.Errorf("accept a message of %s: %w", in.Key, err)
			}
			return err
		}})
	}
	for _, c := range cursors {
		parts = append(parts, db.Part{Do: func(ctx context.Context, tx db.Tx) error {
			return setCursor(ctx, tx, c, db.Millis(s.Now()))
		}})
	}
	if err = s.db.WriteParts(ctx, parts...); err != nil {
		return nil, err
	}
	for i, in := range taken {
		if in.row.Unknown {
			if in.row.ID, err = s.inboundID(ctx, in.Inbound); err != nil {
				return nil, err
			}
		}
		if in.row.ID != 0 && in.Key == batch[i].Key {
			s.known.add(in.Inbound)
		}
		if in.ID = in.row.ID; in.ID != 0 {
			stored = append(stored, in.Inbound)
		}
	}
	return stored, nil
}

// accepted is a message of a batch as it is stored, and its row: none if the message was stored before, is group
// talk, or is for a reminder that is not due.
type accepted struct {
	Inbound
	row   db.Added
	known bool // the sessions of the whole batch are known, see knownSessions
}

// inboundID returns the id of a message that is stored.
func (s *Store) inboundID(ctx context.Context, in Inbound) (id int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) FROM inbox WHERE channel = ? AND source_id = ? AND account = ?`,
		in.Channel(), in.SourceID, in.Account).Scan(&id)
	return id, db.Explain(err)
}

// acceptInbound stores a message, or keeps it as group talk.
func (s *Store) acceptInbound(ctx context.Context, tx db.Tx, in *accepted, now int64) error {
	if in.Aside {
		sender, err := json.Marshal(in.Sender)
		if err != nil {
			return err
		}
		return s.besideDamage(talkrows.Add(ctx, tx, string(in.Key), in.SourceID, sender, in.Text, now))
	}
	if in.Reminder.Reminder != 0 {
		if isDue, err := reminderrows.Advance(ctx, tx, in.Reminder); err != nil || !isDue {
			return err
		}
	}
	if in.Talk.Most > 0 {
		if err := s.takeTalk(ctx, tx, &in.Inbound); err != nil {
			return err
		}
	}
	if err := insertInbound(ctx, tx, in, now); err != nil {
		return err
	}
	return checkKnown(ctx, tx, in)
}

// takeTalk stores the group talk that a message asks for in its Overheard. It also removes the message
// itself from the group talk, where it may be from before an edit addressed it to the assistant.
func (s *Store) takeTalk(ctx context.Context, tx db.Tx, in *Inbound) error {
	err := talkrows.Remove(ctx, tx, in.Channel(), in.SourceID)
	if _, command := in.Command(); err == nil && !command {
		in.Overheard, err = talkrows.Take(ctx, tx, string(cmp.Or(in.Talk.Of, in.Key)), in.Talk.Most, in.Talk.Of != "")
	}
	return s.besideDamage(err)
}

// besideDamage returns nil for an error of damage in the group talk, so that messages are stored without it.
func (s *Store) besideDamage(err error) error {
	if IsDamaged(err) {
		s.db.NoteDamage("the group talk", err)
		return nil
	}
	return err
}

// insertInbound stores a message unless it was stored before.
func insertInbound(ctx context.Context, tx db.Tx, in *accepted, now int64) error {
	if err := enterSession(ctx, tx, in, now); err != nil {
		return err
	}
	sender, err := json.Marshal(in.Sender)
	if err != nil {
		return err
	}
	attachments, err := db.JSONOrNull(in.Attachments, len(in.Attachments) == 0)
	if err != nil {
		return err
	}
	if in.Options.Metadata, err = in.Options.Metadata.Checked(); err != nil {
		return err
	}
	options, err := db.JSONOrNull(in.Options, in.Options.IsZero())
	if err != nil {
		return err
	}
	fingerprint := ""
	if in.Keep {
		if fingerprint, err = in.Fingerprint(); err != nil {
			return err
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
	const insert = `
		INSERT INTO inbox (channel, account, source_id, sent_at, in_group, session_id, origin, address, sender, title, text, never_command, attachments, fingerprint,
			keep, replaces_conversation, replaces_seq, options, album, quiet, overheard)
		SELECT ?1, ?2, ?3, ?4, ?5, (SELECT id FROM sessions WHERE key = ?6), ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21 WHERE NOT ` + knownByAnother + `
		ON CONFLICT (channel, source_id, account) DO NOTHING`
	values := []any{
		in.Channel(), in.Account, in.SourceID, db.Millis(in.At), in.Group,
		string(in.Key), db.Nullable(origin), in.Address, string(sender), in.Title, in.Text, in.NeverCommand, attachments, db.Nullable(fingerprint),
		in.Keep, db.Nullable(in.Replaces.Conversation), sql.NullInt64{Int64: in.Replaces.Seq, Valid: in.Replaces.Seq != 0}, options,
		db.Nullable(in.Album), in.Quiet.Milliseconds(), db.Nullable(in.Overheard),
	}
	if in.Album == "" && len(in.Attachments) == 0 {
		return db.InsertLater(ctx, tx, &in.row, insert, values...)
	}
	if in.row.ID, err = db.Insert(ctx, tx, insert, values...); err != nil || in.row.ID == 0 {
		return err
	}
	if err := noteAlbum(ctx, tx, in.Inbound, now); err != nil {
		return err
	}
	return moveUploads(ctx, tx, in.Inbound, uploads.Ready, uploads.Accepted)
}

// knownByAnother is the condition that another bot has received the same message: with the
// channel ?1, the account ?2, the source id ?3, the time ?4, and ?5 true for a group. In
// groups, platforms usually number messages for all bots together. In private chats they
// number them for each bot, so the same id is another message, unless the bot is not known.
const knownByAnother = `EXISTS (
	SELECT 1 FROM inbox WHERE channel = ?1 AND source_id = ?3 AND account <> ?2 AND sent_at = ?4 AND (account = '' OR ?2 = '' OR in_group = 1 AND ?5 = in_group))`

// Cursor is how far a channel has read its platform, stored in the same
// transaction as the messages up to it.
type Cursor struct {
	Name  string // "telegram:123456", one for each account or place
	Value string // for example the next update's offset; "" deletes the cursor
	Grows bool   // Value is a number, and a smaller one is not stored: several nodes may move the cursor
}

// Cursor returns the value that is stored under a name, or "".
func (s *Store) Cursor(ctx context.Context, name string) (string, error) {
	var value string
	err := db.ShortRow(ctx, s.db, `SELECT value FROM cursors WHERE name = ?`, name).Scan(&value)
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

func setCursor(ctx context.Context, tx db.Tx, c Cursor, now int64) error {
	if c.Value == "" {
		_, err := tx.ExecContext(ctx, `DELETE FROM cursors WHERE name = ?`, c.Name)
		return err
	}
	statement := `
		INSERT INTO cursors (name, value, updated_at) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`
	if c.Grows {
		statement += `
		WHERE length(excluded.value) > length(cursors.value)
			OR length(excluded.value) = length(cursors.value) AND excluded.value > cursors.value`
	}
	_, err := tx.ExecContext(ctx, statement, c.Name, c.Value, now)
	return err
}

// moveUploads puts the uploads that an inbound names from one state into the next.
func moveUploads(ctx context.Context, tx db.Tx, in Inbound, from, to uploads.State) error {
	refs := make([]string, len(in.Attachments))
	for i, file := range in.Attachments {
		refs[i] = file.Ref
	}
	return uploads.Move(ctx, tx, string(in.Key), refs, from, to)
}

// albumLife is how long an album is remembered. Its messages arrive within seconds, or after
// an outage.
const albumLife = 48 * time.Hour

// noteAlbum remembers the album of a message.
func noteAlbum(ctx context.Context, tx db.Tx, in Inbound, now int64) error {
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
