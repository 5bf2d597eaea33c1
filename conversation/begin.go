package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
)

// Turn is what a run starts from.
type Turn struct {
	Waiting      []Inbound    // every inbound of the session that waits, in order of arrival
	Conversation Conversation // the active one; a fresh one that is stored by Commit when there is none
	History      []Message    // the newest exchanges within the budget, oldest first
	Older        int64        // messages of the conversation that stand before History
	More         bool         // more waits than was taken
}

// maxWaiting bounds how many waiting messages one turn takes; the next turn
// takes the rest.
const maxWaiting = 200

// Begin reads what a run of the session needs, and changes nothing. budget is
// in tokens. Only whole exchanges are given, but always the newest one, however
// large it is. The cost grows with the budget, not with the conversation.
func (s *Store) Begin(ctx context.Context, key Key, budget int) (Turn, error) {
	return s.Continue(ctx, key, budget, Turn{})
}

// Continue is Begin for whoever has held the session's lock since the previous
// turn, and has replaced no answers since: of a conversation that goes on, only
// what came after that turn is read. The previous turn is used up.
func (s *Store) Continue(ctx context.Context, key Key, budget int, previous Turn) (Turn, error) {
	var turn Turn
	var id int64 // of the conversation, 0 when it is not stored yet
	known := false
	err := s.writer.read(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
		turn = Turn{}
		if turn.Waiting, err = waiting(ctx, conn, key); err != nil || len(turn.Waiting) == 0 {
			return err
		}
		turn.More = len(turn.Waiting) == maxWaiting
		if id, turn.Conversation, err = active(ctx, conn, key); err != nil {
			return err
		}
		if known = id != 0 && turn.Conversation.ID == previous.Conversation.ID; known {
			turn.History, turn.Older, err = extend(ctx, conn, id, budget, previous)
		}
		return err
	})
	if err != nil || known || id == 0 {
		return turn, err
	}
	turn.History, turn.Older, err = s.tail(ctx, id, budget)
	return turn, explain(err)
}

// querier is a connection, or a pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func waiting(ctx context.Context, q querier, key Key) ([]Inbound, error) {
	rows, err := q.QueryContext(ctx, `
		SELECT i.id, i.source_id, i.address, i.sender, i.in_group, i.text, i.sent_at
		FROM inbox i JOIN sessions s ON s.id = i.session_id
		WHERE s.key = ? AND i.run_id IS NULL ORDER BY i.id LIMIT ?`, string(key), maxWaiting)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Inbound
	for rows.Next() {
		in := Inbound{Key: key}
		var sender []byte
		var at int64
		if err := rows.Scan(&in.ID, &in.SourceID, &in.Address, &sender, &in.Group, &in.Text, &at); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(sender, &in.Sender); err != nil {
			return nil, err
		}
		in.At = fromMillis(at)
		list = append(list, in)
	}
	return list, rows.Err()
}

// Active is the session's active conversation. When it has none, a fresh one
// with a new ID is given, which is stored with its first message.
func (s *Store) Active(ctx context.Context, key Key) (Conversation, error) {
	_, c, err := active(ctx, s.readers, key)
	return c, explain(err)
}

func active(ctx context.Context, q querier, key Key) (id int64, c Conversation, err error) {
	row := q.QueryRowContext(ctx, `
		SELECT c.id, c.uuid, s.key, c.title, c.active, c.messages, c.tokens, c.created_at, c.updated_at
		FROM conversations c JOIN sessions s ON s.id = c.session_id
		WHERE s.key = ? AND c.active = 1`, string(key))
	id, c, err = scanConversation(row)
	if errors.Is(err, sql.ErrNoRows) {
		fresh, err := uuid.NewV7()
		return 0, Conversation{ID: fresh.String(), Key: key, Active: true}, err
	}
	return id, c, err
}

func scanConversation(row interface{ Scan(...any) error }) (id int64, c Conversation, err error) {
	var created, updated int64
	err = row.Scan(&id, &c.ID, &c.Key, &c.Title, &c.Active, &c.Messages, &c.Tokens, &created, &updated)
	c.CreatedAt, c.UpdatedAt = fromMillis(created), fromMillis(updated)
	return id, c, err
}

// tail walks back from the newest message until the budget is spent, and then
// leaves out the exchange that was cut.
func (s *Store) tail(ctx context.Context, conversation int64, budget int) (history []Message, older int64, err error) {
	rows, err := s.readers.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = ? AND state <> 'replaced' AND internal = 0 ORDER BY seq DESC`, conversation)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	var newest []Message // newest first
	whole := 0           // how many of them make whole exchanges
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return nil, 0, err
		}
		if n := len(newest); n > 0 && StartsExchange(&m, &newest[n-1]) {
			whole = n
		}
		budget -= m.Tokens
		if budget < 0 && whole > 0 {
			newest, older = newest[:whole], newest[whole-1].Seq-1
			return oldestFirst(newest), older, nil
		}
		newest = append(newest, m)
	}
	return oldestFirst(newest), 0, rows.Err()
}

// extend adds to the history of a turn what came after it, and leaves out the
// oldest exchanges that no longer fit.
func extend(ctx context.Context, q querier, conversation int64, budget int, previous Turn) (history []Message, older int64, err error) {
	rows, err := q.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = ? AND seq > ? AND state <> 'replaced' AND internal = 0 ORDER BY seq`,
		conversation, previous.Conversation.Messages)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	history = previous.History
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return nil, 0, err
		}
		history = append(history, m)
	}
	older = previous.Older
	if first := firstWithin(history, budget); first > 0 {
		history, older = history[first:], history[first].Seq-1
	}
	return history, older, rows.Err()
}

// firstWithin is where the newest whole exchanges within the budget begin.
func firstWithin(history []Message, budget int) int {
	first := len(history)
	for i := len(history) - 1; i >= 0; i-- {
		budget -= history[i].Tokens
		if budget < 0 && first < len(history) {
			return first
		}
		if i > 0 && StartsExchange(&history[i-1], &history[i]) {
			first = i
		}
	}
	return 0
}

// StartsExchange says whether an exchange begins with next when previous
// stands before it: a user message that no user message precedes.
func StartsExchange(previous, next *Message) bool {
	return next.Role == RoleUser && (previous == nil || previous.Role != RoleUser)
}

func oldestFirst(messages []Message) []Message {
	for i, j := 0, len(messages)-1; i < j; i, j = i+1, j-1 {
		messages[i], messages[j] = messages[j], messages[i]
	}
	return messages
}

const selectMessages = `
	SELECT seq, run_id, role, state, content, tool_calls, tool_call_id, tool_name, tokens, sender, source_id, created_at
	FROM messages`

func scanMessage(rows *sql.Rows) (Message, error) {
	var m Message
	var state string
	var calls, sender []byte
	var callID, toolName, sourceID sql.NullString
	var at int64
	err := rows.Scan(&m.Seq, &m.RunID, &m.Role, &state, &m.Content, &calls, &callID, &toolName, &m.Tokens, &sender, &sourceID, &at)
	if err != nil {
		return Message{}, err
	}
	if len(calls) > 0 {
		if err := json.Unmarshal(calls, &m.ToolCalls); err != nil {
			return Message{}, err
		}
	}
	if len(sender) > 0 {
		if err := json.Unmarshal(sender, &m.Sender); err != nil {
			return Message{}, err
		}
	}
	m.Stopped = state == stateStopped
	m.ToolCallID, m.ToolName, m.SourceID = callID.String, toolName.String, sourceID.String
	m.At = fromMillis(at)
	return m, nil
}
