package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/turns"
)

// Snapshot is what a loop knows of its session when it begins a run.
type Snapshot struct {
	Waiting      []Inbound    // every inbound of the session that waits, in order of arrival
	Notes        []Inbound    // edits of answered messages, to be told with what waits
	Place        string       // what people call the session's place, "" when nobody said
	Conversation Conversation // the active one; a fresh one that is stored by Commit when there is none
	History      []Message    // from where the window begins, at least the newest turn, oldest first
	Older        int64        // messages of the conversation that stand before History, internal ones among them
	Summary      Summary      // of the beginning of the conversation, where the caller has read it
	More         bool         // more waits than was taken
	Damaged      bool         // the conversation can't be read, or nothing can be added to it, since the file is damaged; History is empty
}

// maxWaiting and maxNotes limit what a snapshot holds. The next one holds the rest.
const (
	maxWaiting = 200
	maxNotes   = 20
)

// maxTurn is how many messages of a turn that exceeds the budget a snapshot
// holds: the newest, and more than any run adds. Programs may append any number.
const maxTurn = 4000

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

// Peek returns the session's snapshot without claiming its inbound, also when nothing
// waits.
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

// Widen returns a snapshot with the newest turns before a seq within the budget, in
// tokens, wherever the window has begun: it is to be chosen anew.
func (s *Store) Widen(ctx context.Context, snapshot Snapshot, before int64, budget int) (Snapshot, error) {
	if snapshot.Damaged || snapshot.Conversation.row == 0 {
		return snapshot, nil
	}
	snapshot.Conversation.Window = Window{}
	err := s.readHistory(ctx, &snapshot, before, budget)
	return snapshot, db.Explain(err)
}

// readHistory reads the history of a snapshot's conversation before a seq into it.
func (s *Store) readHistory(ctx context.Context, snapshot *Snapshot, before int64, budget int) (err error) {
	c := snapshot.Conversation
	snapshot.History, snapshot.Older, err = s.tail(ctx, c.row, c.Window, before, budget)
	if IsDamaged(err) {
		s.db.NoteDamage(fmt.Sprintf("messages of %s", c.Key), err)
		snapshot.Damaged, err = true, nil
	}
	if snapshot.Damaged = snapshot.Damaged || s.closed.has(c.ID); snapshot.Damaged {
		snapshot.History, snapshot.Older = nil, c.Messages
	}
	return err
}

// unreadConversation returns what a snapshot has in place of an active conversation that
// can't be read: one without a row.
func unreadConversation(ctx context.Context, q db.Querier, key Key) (c Conversation, err error) {
	c = Conversation{Key: key, Active: true}
	err = q.QueryRowContext(ctx, `SELECT id FROM sessions WHERE key = ?`, string(key)).Scan(&c.session)
	return c, err
}

// After returns the snapshot after the commit of a run that began with this one, without
// what waits. This one must not be used any more.
func (t Snapshot) After(c Committed, budget int) Snapshot {
	next := Snapshot{Place: t.Place, Conversation: c.Conversation, Older: t.Older, Summary: t.Summary}
	next.History = t.History
	for _, m := range c.Messages {
		if !m.Internal {
			next.History = append(next.History, m)
		}
	}
	next.History, next.Older = c.Conversation.Window.trim(next.History, next.Older, budget)
	return next
}

// Inbox lists the messages that no run has settled, at most limit, in order of
// arrival: those of a session, or of all sessions where key is "".
func (s *Store) Inbox(ctx context.Context, key Key, limit int) ([]Inbound, error) {
	if key != "" {
		list, err := s.readableInbox(ctx, s.db, key, false, limit)
		return list, db.Explain(err)
	}
	list, err := readInboxWhere(ctx, s.db, "", false, limit, `1`, nil, nil)
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
		SELECT id FROM inbox INDEXED BY inbox_waiting WHERE run_id IS NULL AND session_id = (SELECT id FROM sessions WHERE key = ?) ORDER BY id`, string(key)))
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
	return readInboxWhere(ctx, q, key, notes, limit, `1`, nil, accounts)
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
			coalesce(i.album, ''), i.quiet, coalesce(i.overheard, '')
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
	var at, quiet int64
	err = rows.Scan(&in.ID, &in.Key, &in.Origin, &in.Account, &in.SourceID, &in.Address, &sender, &in.Group, &in.Title, &in.Text, &in.NeverCommand, &attachments, &in.Keep,
		&in.Replaces.Conversation, &in.Replaces.Seq, &options, &in.revision, &at, &in.Album, &quiet, &in.Overheard)
	if err != nil {
		return in, err
	}
	in.Quiet = time.Duration(quiet) * time.Millisecond
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

// Active returns the session's active conversation. If there is none, it returns a fresh one
// with a new ID, which is stored with its first message.
func (s *Store) Active(ctx context.Context, key Key) (Conversation, error) {
	c, _, err := active(ctx, s.db, key)
	return c, db.Explain(err)
}

func active(ctx context.Context, q db.Querier, key Key) (c Conversation, place string, err error) {
	c, err = scanConversation(q.QueryRowContext(ctx, selectConversations+`WHERE s.key = ? AND c.active = 1`, string(key)), &place)
	if errors.Is(err, sql.ErrNoRows) {
		return freshConversation(ctx, q, key)
	}
	return c, place, err
}

func freshConversation(ctx context.Context, q db.Querier, key Key) (c Conversation, place string, err error) {
	c = Conversation{Key: key, Active: true}
	var carried []byte
	err = q.QueryRowContext(ctx, `SELECT id, place, carried FROM sessions WHERE key = ?`, string(key)).Scan(&c.session, &place, &carried)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return c, "", err
	}
	if len(carried) > 0 {
		if err := json.Unmarshal(carried, &c.State); err != nil {
			return c, "", err
		}
	}
	id, err := uuid.NewV7()
	c.ID = id.String()
	return c, place, err
}

const selectConversations = `
	SELECT c.id, c.session_id, c.uuid, s.key, s.place, c.title, c.active, c.messages, c.tokens, c.state, c.window_start, c.window_cut, c.window_budget, c.created_at, c.updated_at
	FROM conversations c JOIN sessions s ON s.id = c.session_id `

func scanConversation(row interface{ Scan(...any) error }, place *string) (c Conversation, err error) {
	var created, updated int64
	var state []byte
	err = row.Scan(&c.row, &c.session, &c.ID, &c.Key, place, &c.Title, &c.Active, &c.Messages, &c.Tokens, &state, &c.Window.Start, &c.Window.Cut, &c.Window.Budget, &created, &updated)
	c.CreatedAt, c.UpdatedAt = db.FromMillis(created), db.FromMillis(updated)
	if err == nil && len(state) > 0 {
		err = json.Unmarshal(state, &c.State)
	}
	return c, err
}

// tail reads the part of a conversation before a seq that a snapshot holds, as Window.trim
// says. It walks back from the newest message, so that its cost grows with the window
// alone.
func (s *Store) tail(ctx context.Context, conversation int64, window Window, before int64, budget int) (history []Message, older int64, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	rows, err := db.Short(ctx, conn, selectMessages+`
		WHERE conversation_id = ? AND seq < ? AND `+turns.InTalk+` ORDER BY seq DESC`, conversation, before)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	var newest []Message // newest first
	whole := 0           // how many of them make whole turns
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return nil, 0, err
		}
		if n := len(newest); n > 0 && newest[n-1].StartsTurn(&m) {
			whole = n
		}
		budget -= window.tokens(&m)
		switch {
		case whole > 0 && m.Seq < window.Start:
			return oldestFirst(newest), window.Start - 1, nil
		case whole > 0 && budget < 0:
			older = newest[whole-1].Seq - 1
			return oldestFirst(newest[:whole]), older, nil
		case budget < 0 && len(newest) >= maxTurn:
			older = m.Seq
			for n := len(newest); n > 0 && newest[n-1].Role == RoleTool; n-- { // whose calls are not among them
				newest, older = newest[:n-1], newest[n-1].Seq
			}
			return oldestFirst(newest), older, nil
		}
		newest = append(newest, m)
	}
	return oldestFirst(newest), 0, rows.Err()
}

func oldestFirst(messages []Message) []Message {
	for i, j := 0, len(messages)-1; i < j; i, j = i+1, j-1 {
		messages[i], messages[j] = messages[j], messages[i]
	}
	return messages
}
