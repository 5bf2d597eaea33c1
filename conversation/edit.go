package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/uploads"
)

// Edit stores that the author of a message has changed it. A message that waits gets the
// new text, but does not become a command by it. If a run has answered the message, the
// session's next run is told of the edit. Edit returns the session whose loop must read the
// store again, or "" if the message is unknown or was a command, or its conversation is
// deleted. The same edit may come twice.
func (s *Store) Edit(ctx context.Context, of Account, sourceID, text string, at time.Time) (key Key, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		key, err = edit(ctx, tx, of, sourceID, db.Text(text), at)
		return err
	})
	return key, err
}

func edit(ctx context.Context, tx *sql.Tx, of Account, sourceID, text string, at time.Time) (Key, error) {
	var key Key
	var id int64
	var run sql.NullInt64
	var kind sql.NullString
	var old Inbound
	err := tx.QueryRowContext(ctx, `
		SELECT s.key, i.id, i.run_id, r.kind, CASE WHEN i.run_id IS NULL THEN i.text ELSE '' END, i.never_command
		FROM inbox i JOIN sessions s ON s.id = i.session_id
			LEFT JOIN runs r ON r.id = i.run_id AND EXISTS (SELECT 1 FROM conversations c WHERE c.id = r.conversation_id AND c.deleted = 0)
		WHERE i.id = `+theMessage, of.Channel, of.ID, sourceID).Scan(&key, &id, &run, &kind, &old.Text, &old.NeverCommand)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", err
	case !run.Valid && old.Text == text:
		return "", nil
	case !run.Valid:
		_, command := old.Command()
		_, err = tx.ExecContext(ctx, `UPDATE inbox SET text = ?, never_command = ?, revision = revision + 1 WHERE id = ?`, text, !command, id)
		return key, err
	case Kind(kind.String) != KindAgent:
		return "", nil
	}
	return key, insertNote(ctx, tx, id, ":edit:"+strconv.FormatInt(db.Millis(at), 10), text)
}

// theMessage is a query of the row id of a message, by the channel ?1, the bot ?2 and the
// source id ?3. In a group it may have come to another bot: see knownByAnother.
var theMessage = `(
	SELECT id FROM inbox WHERE channel = ?1 AND source_id = ?3 AND (in_group OR ` + ofAccount("account", "?2") + `)
	ORDER BY account = ?2 DESC LIMIT 1)`

// insertNote leaves a text about a message for the next run of its session.
func insertNote(ctx context.Context, tx *sql.Tx, about int64, suffix, text string) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO inbox (session_id, channel, account, origin, source_id, address, sender, in_group, note, text, sent_at)
		SELECT session_id, channel, account, origin, source_id || ?, address, sender, in_group, 1, ?, sent_at FROM inbox WHERE id = ?
		ON CONFLICT (channel, source_id, account) DO NOTHING`, suffix, text, about)
	return err
}

// Withdraw stores that a message was deleted where it was written. One that no
// run has settled is never answered; what a run has answered stays. It returns the session
// whose loop must read the store again, or "" if there is nothing to withdraw.
func (s *Store) Withdraw(ctx context.Context, of Account, sourceID string) (key Key, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		key, err = withdraw(ctx, tx, of, sourceID)
		return err
	})
	return key, err
}

func withdraw(ctx context.Context, tx *sql.Tx, of Account, sourceID string) (Key, error) {
	var in Inbound
	var attachments []byte
	err := tx.QueryRowContext(ctx, `
		SELECT s.key, i.id, i.attachments, `+rows.Keeps+` FROM inbox i JOIN sessions s ON s.id = i.session_id
		WHERE i.id = `+theMessage+` AND i.run_id IS NULL`, of.Channel, of.ID, sourceID).Scan(&in.Key, &in.ID, &attachments, &in.Keep)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err == nil && len(attachments) > 0 {
		err = json.Unmarshal(attachments, &in.Attachments)
	}
	if err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, rows.Withdraw+`WHERE id = ?`, in.ID)
	if err == nil {
		err = dropFiles(ctx, tx, in.ID)
	}
	if err != nil {
		return "", err
	}
	return in.Key, moveUploads(ctx, tx, in, uploads.Accepted, uploads.Taken)
}

// Replacing returns the snapshot in which the first waiting message is answered, and the
// seq for Effect.Undo. If the message replaces the newest turn, the history and the state
// are without that turn. If it replaces nothing, or something else was said since, it is
// an ordinary message: Replacing returns the snapshot as it is, and 0.
func (t Snapshot) Replacing() (_ Snapshot, undo int64) {
	if len(t.Waiting) == 0 || t.Waiting[0].Replaces.Seq == 0 || t.Waiting[0].Replaces.Conversation != t.Conversation.ID {
		return t, 0
	}
	first, asked := len(t.History), 0
	for first > 0 && (first == len(t.History) || !t.History[first].StartsTurn(&t.History[first-1])) {
		if first--; t.History[first].Role == RoleUser {
			asked++
		}
	}
	if asked != 1 || t.History[first].Seq != t.Waiting[0].Replaces.Seq {
		return t, 0
	}
	t.History, undo = t.History[:first:first], t.History[first].Seq
	old := t.Conversation.State
	t.Conversation.State = old.Without(old.Turns)
	t.Conversation.State.Turns, t.Conversation.State.Asked = max(0, old.Turns-1), false
	return t, undo
}
