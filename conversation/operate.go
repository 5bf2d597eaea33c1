package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/talkrows"
	"parley/conversation/metadata"
	"parley/conversation/state"
)

// These methods change sessions on behalf of operators and programs. The caller holds the
// session's lock, so that no loop uses the conversation at the same time.

// Archive ends a conversation of a session, the active one where id is "", and
// returns it as it is then; the next message begins a new one. The error is ErrNotFound
// when there is no such conversation, or none that is active.
func (s *Store) Archive(ctx context.Context, key Key, id string) (Conversation, error) {
	return s.change(ctx, key, id, "archive", func(ctx context.Context, tx db.Tx, c *Conversation) error {
		if _, err := tx.ExecContext(ctx, `UPDATE conversations SET active = 0 WHERE id = ?`, c.row); err != nil || !c.Active {
			return err
		}
		c.Active = false
		carried, err := json.Marshal(c.State.Carried(s.carry))
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE sessions SET carried = ? WHERE id = ?`, string(carried), c.session)
		}
		return err
	})
}

// SetMetadata replaces the metadata of a conversation of a session, or that of the session
// itself if id is "". A session that does not exist is created. Metadata "" is none. The error
// is ErrNotFound when there is no such conversation, and ErrInvalid for metadata that is no
// JSON object, or a long one.
func (s *Store) SetMetadata(ctx context.Context, key Key, id string, given metadata.Object) error {
	return s.ChangeMetadata(ctx, key, id, func(metadata.Object) (metadata.Object, error) { return given, nil })
}

// ChangeMetadata is SetMetadata for metadata that depends on what is stored, which nobody else changes meanwhile. An error of
// change is returned, and nothing is stored.
func (s *Store) ChangeMetadata(ctx context.Context, key Key, id string, change func(old metadata.Object) (metadata.Object, error)) error {
	changed := func(old metadata.Object) (sql.NullString, error) {
		given, err := change(old)
		if err == nil {
			given, err = given.Checked()
		}
		return db.Nullable(string(given)), err
	}
	if id == "" {
		return s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
			session, _, err := rows.EnterSession(ctx, tx, string(key), "", db.Millis(s.Now()))
			if err != nil {
				return err
			}
			var old string
			err = tx.QueryRowContext(ctx, `SELECT coalesce(metadata, '') FROM sessions WHERE id = ?`+db.ToChange(`sessions`), session).Scan(&old)
			if err != nil {
				return err
			}
			stored, err := changed(metadata.Object(old))
			if err == nil {
				_, err = tx.ExecContext(ctx, `UPDATE sessions SET metadata = ? WHERE id = ?`, stored, session)
			}
			return err
		})
	}
	_, err := s.change(ctx, key, id, "describe", func(ctx context.Context, tx db.Tx, c *Conversation) error {
		stored, err := changed(c.Metadata)
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE conversations SET metadata = ? WHERE id = ?`, stored, c.row)
		}
		return err
	})
	return err
}

// Renaming describes a new title for a conversation of a session.
type Renaming struct {
	Key     Key
	ID      string
	Title   string
	Instead *string // only in place of this title; nil = whatever it has
}

// Rename gives a conversation a title, and returns it as it is then. The error is
// ErrNotFound when there is no such conversation, or it has another title than the one
// that is to be replaced.
func (s *Store) Rename(ctx context.Context, r Renaming) (Conversation, error) {
	return s.change(ctx, r.Key, r.ID, "rename", func(ctx context.Context, tx db.Tx, c *Conversation) error {
		if r.Instead != nil && c.Title != *r.Instead {
			return ErrNotFound
		}
		c.Title = db.Text(r.Title)
		_, err := tx.ExecContext(ctx, `UPDATE conversations SET title = ? WHERE id = ?`, c.Title, c.row)
		return err
	})
}

// change applies do to a conversation of a session, or to the active one if id is "", and
// returns the changed conversation.
func (s *Store) change(ctx context.Context, key Key, id, what string, do func(context.Context, db.Tx, *Conversation) error) (c Conversation, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		which, args := `c.uuid = ? AND `, []any{id, string(key)}
		if id == "" {
			which, args = `c.active = 1 AND c.messages > 0 AND `, args[1:]
		}
		var place string
		var err error
		c, err = scanConversation(tx.QueryRowContext(ctx, selectConversations+`
			WHERE `+which+`s.key = ? AND c.deleted = 0`+toChange, args...), &place)
		if err == nil {
			err = do(ctx, tx, &c)
		}
		if id == "" && errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: %s has none that is active", ErrNotFound, key)
		}
		if err != nil {
			return fmt.Errorf("%s the conversation %q of %s: %w", what, id, key, notFound(err))
		}
		return nil
	})
	return c, err
}

// withSession are the tables whose rows are deleted with all conversations of a session, and
// not with one of them.
var withSession = []string{"session_approvals", "reminders"}

// deleteBatch is how many conversations are marked in one transaction.
const deleteBatch = 100

// Delete deletes a conversation of a session for good, or all of them when id
// is "", and returns their number. They are hidden at once. Their rows and their words in
// the index are deleted in the background, or by Sweep. Waiting messages stay. Group talk
// is deleted with the active conversation, and with all of them; reminders, and tools that are
// always allowed, with all of them.
func (s *Store) Delete(ctx context.Context, key Key, id string) (deleted int, err error) {
	for {
		n, err := s.deleteSome(ctx, key, id)
		if deleted += n; err != nil || n < deleteBatch {
			return deleted, err
		}
	}
}

func (s *Store) deleteSome(ctx context.Context, key Key, id string) (n int, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		list, err := deletable(ctx, tx, key, id)
		if err != nil {
			return err
		}
		if err := forgetTalk(ctx, tx, key, id, list); err != nil {
			return err
		}
		for _, row := range list {
			if err := rows.DeleteConversation(ctx, tx, row); err != nil {
				return err
			}
		}
		if n = len(list); id == "" {
			_, err = tx.ExecContext(ctx, `UPDATE sessions SET place = '', metadata = NULL, carried = NULL, pinned = 0 WHERE key = ?`, string(key)) // an adapter says its place anew
			for _, table := range withSession {
				if err == nil {
					_, err = tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE session_id = (SELECT id FROM sessions WHERE key = ?)`, string(key))
				}
			}
		}
		return err
	})
	return n, err
}

// forgetTalk deletes the group talk of a session, where all conversations are deleted, or
// the active one is. An older one is over, and what is said now is no part of it.
func forgetTalk(ctx context.Context, tx db.Tx, key Key, id string, list []int64) error {
	all := id == ""
	if !all && len(list) > 0 {
		if err := tx.QueryRowContext(ctx, `SELECT active FROM conversations WHERE id = ?`, list[0]).Scan(&all); err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	return talkrows.Forget(ctx, tx, string(key))
}

func deletable(ctx context.Context, tx db.Tx, key Key, id string) (list []int64, err error) {
	return db.Column[int64](tx.QueryContext(ctx, `
		SELECT c.id FROM conversations c JOIN sessions s ON s.id = c.session_id
		WHERE s.key = ?1 AND (?2 = '' OR c.uuid = ?2) AND c.deleted = 0 LIMIT ?3`, string(key), id, deleteBatch))
}

// Resume makes an earlier conversation of a session its active one; the
// present one is archived. The caller holds the session's lock.
func (s *Store) Resume(ctx context.Context, key Key, conversation string) error {
	return s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := resume(ctx, tx, key, conversation, s.Now())
		return err
	})
}

// resume makes a conversation the active one and returns it.
func resume(ctx context.Context, tx db.Tx, key Key, conversation string, at time.Time) (Conversation, error) {
	var place string
	c, err := scanConversation(tx.QueryRowContext(ctx, selectConversations+`
		WHERE c.uuid = ? AND s.key = ? AND c.deleted = 0`+toChange, conversation, string(key)), &place)
	if err != nil {
		return c, fmt.Errorf("resume %s in %s: %w", conversation, key, notFound(err))
	}
	if err := archiveActive(ctx, tx, c.session); err != nil {
		return c, err
	}
	c.Active, c.UpdatedAt = true, db.FromMillis(db.Millis(at))
	_, err = tx.ExecContext(ctx, `UPDATE conversations SET active = 1, updated_at = ? WHERE id = ?`, db.Millis(at), c.row)
	return c, err
}

// notFound returns ErrNotFound if a query had no rows, and any other error as it is.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// Reset archives the active conversation of a session and begins a new one; the
// session keeps its metadata. With keepSystem it also keeps its instructions, all of
// them in the order in which they were given, and the new conversation begins with the
// internal messages that programs had appended at the beginning of the old one. A
// conversation that has nothing else goes on. A session that does not exist is
// ErrNoSession.
func (s *Store) Reset(ctx context.Context, key Key, keepSystem bool) (fresh Conversation, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		fresh, err = reset(ctx, tx, key, keepSystem, s.carry, s.Now())
		if err != nil {
			return fmt.Errorf("reset %s: %w", key, err)
		}
		return nil
	})
	if IsDamaged(err) {
		return s.resetInNewSession(ctx, key, s.Now())
	}
	return fresh, err
}

func reset(ctx context.Context, tx db.Tx, key Key, keepSystem bool, carry state.Carry, at time.Time) (Conversation, error) {
	old, err := activeToChange(ctx, tx, key)
	if err != nil {
		return old, err
	}
	if old.session == 0 {
		return old, ErrNoSession
	}
	var kept []Message
	if keepSystem && old.Messages > 0 {
		if kept, err = opening(ctx, tx, old.row); err != nil {
			return old, err
		}
	}
	if old.row != 0 && old.Messages == int64(len(kept)) {
		return old, nil
	}
	if err := archiveActive(ctx, tx, old.session); err != nil {
		return old, err
	}
	carried := old.State.Carried(carry)
	if !keepSystem {
		carried.Instructions = nil
	}
	fresh, err := insertConversation(ctx, tx, Conversation{Key: key, State: carried, session: old.session}, at)
	if err != nil || len(kept) == 0 {
		return fresh, err
	}
	run := Run{Key: key, Conversation: fresh, Messages: kept}
	fresh, _, err = appendMessages(ctx, tx, run, old.session, at)
	return fresh, err
}

// opening returns the internal messages that programs have appended before anything else
// was said in a conversation, at most as many as one Append takes.
func opening(ctx context.Context, tx db.Tx, conversation int64) ([]Message, error) {
	return readMessages(ctx, tx, selectMessages+`
		WHERE conversation_id = ?1 AND seq < coalesce((
			SELECT seq FROM messages WHERE conversation_id = ?1 AND (internal = 0 OR run_id <> 0) ORDER BY seq LIMIT 1), ?2)
		ORDER BY seq LIMIT ?3`, conversation, int64(1)<<62, appendMost)
}
