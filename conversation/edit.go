package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/talkrows"
	"parley/conversation/internal/turns"
	"parley/conversation/internal/uploads"
)

// Edit stores that the author of a message has changed it. A message that waits gets the
// new text, but does not become a command by it. If a run has answered the message, the
// session's next run is told of the edit. Edit returns the session whose loop must read the
// store again, or "" if the message is unknown or was a command, or its conversation is
// deleted. The same edit may come twice.
func (s *Store) Edit(ctx context.Context, of Account, sourceID, text string, at time.Time) (key Key, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		if key, err = edit(ctx, tx, of, sourceID, db.Text(text), at); err != nil {
			return err
		}
		return s.besideDamage(talkrows.Edit(ctx, tx, of.Channel, sourceID, db.Text(text)))
	})
	return key, err
}

func edit(ctx context.Context, tx db.Tx, of Account, sourceID, text string, at time.Time) (Key, error) {
	var key Key
	var id int64
	var run sql.NullInt64
	var kind sql.NullString
	var old Inbound
	if err := lockMessage(ctx, tx, of, sourceID); err != nil {
		return "", err
	}
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
	SELECT id FROM inbox WHERE channel = ?1 AND source_id = ?3 AND (in_group = 1 OR ` + ofAccount("account", "?2") + `)
	ORDER BY CASE WHEN account = ?2 THEN 0 ELSE 1 END LIMIT 1)`

// lockMessage waits for the run that settles a message at this moment, if another node or another connection of this one commits
// one, and keeps others from settling it until the transaction ends.
func lockMessage(ctx context.Context, tx db.Tx, of Account, sourceID string) error {
	_, err := tx.ExecContext(ctx, `
		SELECT 1 FROM inbox i JOIN sessions s ON s.id = i.session_id WHERE i.id = `+theMessage+db.ToChange(`s, i`),
		of.Channel, of.ID, sourceID)
	return err
}

// insertNote leaves a text about a message for the next run of its session.
func insertNote(ctx context.Context, tx db.Tx, about int64, suffix, text string) error {
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
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		if key, err = withdraw(ctx, tx, of, sourceID); err != nil {
			return err
		}
		return s.besideDamage(talkrows.Remove(ctx, tx, of.Channel, sourceID))
	})
	return key, err
}

func withdraw(ctx context.Context, tx db.Tx, of Account, sourceID string) (Key, error) {
	var in Inbound
	var attachments []byte
	if err := lockMessage(ctx, tx, of, sourceID); err != nil {
		return "", err
	}
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
// seq for Effect.Undo. If the message replaces a turn of the history, the history and the
// state are without that turn and those after it. If it replaces nothing that is there, it
// is an ordinary message: Replacing returns the snapshot as it is, and 0. Rewind is the same
// for a turn before the history.
func (t Snapshot) Replacing() (_ Snapshot, undo int64) {
	if !t.replaces() {
		return t, 0
	}
	first := slices.IndexFunc(t.History, func(m Message) bool { return m.Seq == t.Waiting[0].Replaces.Seq })
	if first < 0 || t.History[first].Role != RoleUser || first > 0 && !t.History[first].StartsTurn(&t.History[first-1]) {
		return t, 0
	}
	if first+1 < len(t.History) && t.History[first+1].Role == RoleUser { // it was answered together with others
		return t, 0
	}
	turn := t.Conversation.State.Turns + 1
	for i := first; i < len(t.History); i++ {
		if i == first || t.History[i].StartsTurn(&t.History[i-1]) {
			turn--
		}
	}
	t.History, undo = t.History[:first:first], t.History[first].Seq
	return t.before(turn), undo
}

// replaces reports whether the first waiting message replaces one of the conversation.
func (t Snapshot) replaces() bool {
	return len(t.Waiting) > 0 && t.Waiting[0].Replaces.Seq > 0 && t.Waiting[0].Replaces.Conversation == t.Conversation.ID
}

// before returns the snapshot with the state that the conversation had before a turn.
func (t Snapshot) before(turn int64) Snapshot {
	t.Conversation.State = t.Conversation.State.Without(turn)
	t.Conversation.State.Turns, t.Conversation.State.Asked = max(0, turn-1), false
	return t
}

// Rewind is Replacing for a turn that stands before the history of the snapshot. It reads
// the history before that turn, within the budget, in tokens.
func (s *Store) Rewind(ctx context.Context, t Snapshot, budget int) (_ Snapshot, undo int64, err error) {
	if !t.replaces() || t.Damaged || len(t.History) > 0 && t.Waiting[0].Replaces.Seq >= t.History[0].Seq {
		return t, 0, nil
	}
	seq := t.Waiting[0].Replaces.Seq
	var alone bool
	err = s.db.QueryRowContext(ctx, `
		SELECT role = 'user' AND 'user' IS DISTINCT FROM (SELECT role FROM messages WHERE conversation_id = m.conversation_id AND seq < m.seq AND `+turns.Visible+` ORDER BY seq DESC LIMIT 1)
			AND 'user' IS DISTINCT FROM (SELECT role FROM messages WHERE conversation_id = m.conversation_id AND seq > m.seq AND `+turns.Visible+` ORDER BY seq LIMIT 1)
		FROM messages m WHERE conversation_id = ? AND seq = ? AND `+turns.VisibleOf("m"), t.Conversation.row, seq).Scan(&alone)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !alone {
		return t, 0, nil
	}
	if err != nil {
		return t, 0, db.Explain(err)
	}
	turn, err := turns.Of(ctx, s.db, t.Conversation.row, seq)
	if err != nil {
		return t, 0, db.Explain(err)
	}
	t, err = s.Widen(ctx, t, seq, budget)
	return t.before(turn), seq, err
}
