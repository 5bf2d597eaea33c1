package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// Snapshot is what a loop knows of its session when it begins a run.
type Snapshot struct {
	Waiting      []Inbound    // every inbound of the session that waits, in order of arrival
	Notes        []Inbound    // edits of answered messages, to be told with what waits
	Place        string       // what people call the session's place, "" when nobody said
	Conversation Conversation // the active one; a fresh one that is stored by Commit when there is none
	History      []Message    // messages from where the window begins, but at least the newest turn; oldest first
	Older        int64        // number of messages of the conversation before History, internal ones among them
	Summary      Summary      // summary of the beginning of the conversation; only where the caller has read it
	More         bool         // more inbound waits than Waiting holds
	Damaged      bool         // the conversation can't be read, or nothing can be added to it, since the file is damaged; History is empty
}

// maxWaiting and maxNotes limit what a snapshot holds. The next one holds the rest.
const (
	maxWaiting = 200
	maxNotes   = 20
)

// Begin returns the snapshot for a run of the session, and changes nothing. Its history
// begins where the conversation's window does, or later with whole turns within the
// budget, in tokens. It always has the newest turn, or, where
// that has more than 4,000 messages, the newest of these. The cost grows with the
// budget, not with the conversation. Where accounts are named, only messages to them
// are waiting: another process answers the others. Where nothing waits, Begin reads no
// more than that.
func (s *Store) Begin(ctx context.Context, key Key, budget int, accounts ...Account) (Snapshot, error) {
	return s.readSnapshot(ctx, key, budget, true, accounts...)
}

// Peek returns the session's snapshot without claiming its inbound. Unlike Begin, it reads the
// conversation even if nothing waits.
func (s *Store) Peek(ctx context.Context, key Key, budget int) (Snapshot, error) {
	return s.readSnapshot(ctx, key, budget, false)
}

// readSnapshot reads a snapshot. With ifWaiting it reads only the inbox when nothing
// waits.
func (s *Store) readSnapshot(ctx context.Context, key Key, budget int, ifWaiting bool, accounts ...Account) (Snapshot, error) {
	var snapshot Snapshot
	err := s.db.Read(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		snapshot = Snapshot{}
		if snapshot.Waiting, err = s.readableInbox(ctx, conn, key, false, maxWaiting, accounts...); err != nil || ifWaiting && len(snapshot.Waiting) == 0 {
			return err
		}
		snapshot.More = len(snapshot.Waiting) == maxWaiting
		if snapshot.Notes, err = s.readableInbox(ctx, conn, key, true, maxNotes); err != nil {
			return err
		}
		snapshot.Conversation, snapshot.Place, err = active(ctx, conn, key)
		if IsDamaged(err) {
			s.db.NoteDamage(fmt.Sprintf("the record of the conversation that goes on in %s", key), err)
			snapshot.Damaged = true
			snapshot.Conversation, err = unreadConversation(ctx, conn, key)
		}
		return err
	})
	if err != nil || snapshot.Conversation.row == 0 {
		return snapshot, err
	}
	err = s.readHistory(ctx, &snapshot, math.MaxInt64, budget)
	return snapshot, db.Explain(err)
}

// unreadConversation returns what a snapshot has in place of an active conversation that
// can't be read: one without a row.
func unreadConversation(ctx context.Context, q db.Querier, key Key) (c Conversation, err error) {
	c = Conversation{Key: key, Active: true}
	err = q.QueryRowContext(ctx, `SELECT id FROM sessions WHERE key = ?`, string(key)).Scan(&c.session)
	return c, err
}

// Inbox lists the messages that no run has settled, at most limit, in order of
// arrival: those of a session, or of all sessions where key is "".
func (s *Store) Inbox(ctx context.Context, key Key, limit int) ([]Inbound, error) {
	if key != "" {
		list, err := s.readableInbox(ctx, s.db, key, false, limit)
		return list, db.Explain(err)
	}
	list, err := readInboxWhere(ctx, s.db, "", false, limit, `true`, nil, nil)
	return list, db.Explain(err)
}

// readableInbox is readInbox, but it leaves out messages on damaged pages, and notes the
// damage.
func (s *Store) readableInbox(ctx context.Context, q db.Querier, key Key, notes bool, limit int, accounts ...Account) ([]Inbound, error) {
	list, err := readInbox(ctx, q, key, notes, limit, accounts...)
	if !IsDamaged(err) {
		return list, err
	}
	ids, err := db.Column[int64](q.QueryContext(ctx, `
		SELECT id FROM inbox`+db.Either(` INDEXED BY inbox_waiting`, ``)+` WHERE run_id IS NULL AND session_id = (SELECT id FROM sessions WHERE key = ?) ORDER BY id`, string(key)))
	if err != nil {
		return nil, err
	}
	list = nil
	for _, id := range ids {
		one, err := readInboxWhere(ctx, q, key, notes, 1, `i.id = ?`, []any{id}, accounts)
		switch {
		case IsDamaged(err):
			s.db.NoteDamage(fmt.Sprintf("a message of %s that waits for an answer, number %d", key, id), err)
		case err != nil:
			return nil, err
		}
		if list = append(list, one...); len(list) == limit {
			break
		}
	}
	return list, nil
}

// readInbox returns the oldest inbound of a session that no run has settled: messages, or
// notes about edits of earlier ones.
func readInbox(ctx context.Context, q db.Querier, key Key, notes bool, limit int, accounts ...Account) ([]Inbound, error) {
	return readInboxWhere(ctx, q, key, notes, limit, `true`, nil, accounts)
}

func readInboxWhere(ctx context.Context, q db.Querier, key Key, notes bool, limit int, condition string, args []any, accounts []Account) ([]Inbound, error) {
	here, names := servedBy("i", accounts)
	session, keys := ``, []any(nil)
	if key != "" {
		session, keys = `s.key = ? AND `, []any{string(key)}
	}
	rows, err := q.QueryContext(ctx, `
		SELECT i.id, s.key, coalesce(i.origin, s.key), i.account, i.source_id, i.address, i.sender, i.in_group, i.title, i.text, i.never_command, i.attachments,
			`+rows.Keeps+`, coalesce(i.replaces_conversation, ''), coalesce(i.replaces_seq, 0), i.options, i.revision, i.sent_at,
			coalesce(i.album, ''), i.quiet, coalesce(i.overheard, ''), coalesce(i.deferred_since, 0), coalesce(i.deferred_model, ''), i.preview
		FROM inbox i JOIN sessions s ON s.id = i.session_id
		WHERE `+session+`i.run_id IS NULL AND i.note = ? AND `+condition+here+` ORDER BY i.id LIMIT ?`,
		slices.Concat(keys, []any{notes}, args, names, []any{limit})...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Inbound
	for rows.Next() {
		in, err := scanInbound(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, in)
	}
	return list, rows.Err()
}

func scanInbound(rows *sql.Rows) (in Inbound, err error) {
	var sender, attachments, options []byte
	var at, quiet, deferred int64
	err = rows.Scan(&in.ID, &in.Key, &in.Origin, &in.Account, &in.SourceID, &in.Address, &sender, &in.Group, &in.Title, &in.Text, &in.NeverCommand, &attachments, &in.Keep,
		&in.Replaces.Conversation, &in.Replaces.Seq, &options, &in.Revision, &at, &in.Album, &quiet, &in.Overheard, &deferred, &in.DeferredFor, &in.Preview)
	if err != nil {
		return in, err
	}
	in.Quiet, in.DeferredSince = time.Duration(quiet)*time.Millisecond, db.FromMillis(deferred)
	if err := json.Unmarshal(sender, &in.Sender); err != nil {
		return in, err
	}
	if len(attachments) > 0 {
		err = json.Unmarshal(attachments, &in.Attachments)
	}
	if err == nil && len(options) > 0 {
		err = json.Unmarshal(options, &in.Options)
	}
	in.At = db.FromMillis(at)
	return in, err
}
