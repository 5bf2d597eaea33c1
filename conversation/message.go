package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/media"
	"parley/conversation/metadata"
	"parley/conversation/state"
	"parley/conversation/steps"
)

// Role says who a message is from, in the words of the chat completions API.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleSystem    Role = "system" // internal: what a program appended is told in every run, a hint in its own run alone
)

// ToolCall is one call that the model asked for, in an assistant message.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON as the model wrote it, which may be broken
}

// Message is one row of a conversation: verbatim, never changed.
type Message struct {
	Seq        int64 // place in the conversation, from 1, without gaps
	Role       Role
	Content    string
	Images     []media.Image // user: pictures, which a model that takes images is shown; assistant: pictures that the model made
	Files      []media.File  `json:",omitempty"` // user: the other files, in the order of their lines in Content; tool: the whole result, where Content is a part
	ToolCalls  []ToolCall    // assistant: the calls it asked for
	ToolCallID string        // tool: the call it answers
	ToolName   string        // tool: the name of the tool
	Tokens     int           // as counted by the model's tokenizer, framing included
	Sender     Sender        // user: who wrote it
	SourceID   string        // user: the platform's id of the message
	Stopped    bool          // assistant: cut short by /stop
	Failed     bool          `json:",omitempty"` // tool: the call failed, and Content says how

	// FinishReason says why an assistant's message is not whole. It is no part of
	// the fingerprint of what is appended, which has none.
	FinishReason steps.FinishReason `json:",omitempty"`

	// Reasoning is what the model thought before an answer. It is not sent to the model again.
	Reasoning string `json:",omitempty"`

	// Note is what the model was told in front of a user message when it was asked.
	Note state.Told `json:",omitzero"`

	// State says as stored why the message is not an ordinary one: "stopped",
	// "left_out", "replaced" or "undone"; "" if it is.
	State string `json:"-"`

	// SetAside is the State that the message has on its branch, while another branch is
	// chosen. It is nil for a message on the chosen one.
	SetAside *string `json:"-"`

	Internal bool            // kept in the archive and no part of the talk: neither people nor the model are shown it
	Metadata metadata.Object // notes of the program that appended the message
	RunID    int64           // ID of the run that wrote the message; 0 for none
	At       time.Time
}

// LeftOut is the State of a message that the model is not shown, since its sender wrote too many at once. People see it.
const LeftOut = rows.LeftOut

// StartsTurn reports whether a turn begins with the message, where previous stands before
// it or is nil: a user message that no user message precedes.
func (m *Message) StartsTurn(previous *Message) bool {
	return m.Role == RoleUser && (previous == nil || previous.Role != RoleUser)
}

// Hidden reports whether the message is left out where people read a conversation.
func (m *Message) Hidden() bool {
	return m.Internal || m.State != "" && m.State != rows.Stopped && m.State != LeftOut
}

const selectMessages = `
	SELECT id, seq, run_id, role, state, set_aside, internal, content, parts, files, tool_calls, tool_call_id, tool_name, tokens, sender, source_id, metadata, finish_reason, failed, reasoning, note, created_at
	FROM messages`

// ReadMessages returns the messages that a condition selects, for the packages below
// this one: "WHERE … ORDER BY …" on rows of the table messages. It holds a connection
// until the last one is read. The error comes with the last pair.
func ReadMessages(ctx context.Context, q db.Querier, condition string, args ...any) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		rows, err := q.QueryContext(ctx, selectMessages+condition, args...)
		if err != nil {
			yield(Message{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			m, err := scanMessage(rows)
			if !yield(m, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Message{}, err)
		}
	}
}

// readMessages reads what a query of selectMessages gives.
func readMessages(ctx context.Context, q db.Querier, query string, args ...any) (list []Message, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

// messageRow is what a row of selectMessages has beside the fields of the message, which it fills.
type messageRow struct {
	Message
	id, at                                               int64
	parts, files, calls, sender, note                    []byte
	callID, toolName, sourceID, noted, finish, reasoning sql.NullString
	failed                                               sql.NullBool
}

func scanMessage(from *sql.Rows) (Message, error) {
	r := new(messageRow) // one allocation for all that Scan is given
	m := &r.Message
	err := from.Scan(&r.id, &m.Seq, &m.RunID, &m.Role, &m.State, &m.SetAside, &m.Internal, &m.Content, &r.parts, &r.files, &r.calls, &r.callID, &r.toolName, &m.Tokens,
		&r.sender, &r.sourceID, &r.noted, &r.finish, &r.failed, &r.reasoning, &r.note, &r.at)
	if err != nil {
		return Message{}, err
	}
	for _, column := range []struct {
		json []byte
		into any
	}{{r.parts, &m.Images}, {r.files, &m.Files}, {r.calls, &m.ToolCalls}, {r.sender, &m.Sender}, {r.note, &m.Note}} {
		if len(column.json) > 0 {
			if err := json.Unmarshal(column.json, column.into); err != nil {
				return Message{}, err
			}
		}
	}
	for n := range m.Images {
		m.Images[n].Message, m.Images[n].Place = r.id, n
	}
	m.Stopped, m.FinishReason, m.Reasoning = m.State == rows.Stopped, steps.FinishReason(r.finish.String), r.reasoning.String
	m.ToolCallID, m.ToolName, m.SourceID, m.Metadata = r.callID.String, r.toolName.String, r.sourceID.String, metadata.Object(r.noted.String)
	if m.Failed = r.failed.Bool; !r.failed.Valid && m.Role == RoleTool { // stored before schema 18
		m.Failed = strings.HasPrefix(m.Content, "error: ")
	}
	m.At = db.FromMillis(r.at)
	return *m, nil
}

// insertMessage stores a new message and returns it as scanMessage would read it.
func insertMessage(ctx context.Context, tx db.Tx, conversation int64, m Message) (Message, error) {
	if m.SetAside = nil; m.State != LeftOut {
		m.State = ""
	}
	if m.Stopped {
		m.State = rows.Stopped
	}
	return InsertMessage(ctx, tx, conversation, m)
}

// withValidText returns the message with texts that the database can hold, also in its columns of JSON.
func (m Message) withValidText() Message {
	for _, text := range []*string{&m.Content, &m.Reasoning, &m.ToolCallID, &m.ToolName, &m.SourceID, &m.Sender.ID, &m.Sender.Name} {
		*text = db.Text(*text)
	}
	m.FinishReason = steps.FinishReason(db.Text(string(m.FinishReason)))
	m.ToolCalls, m.Images, m.Files = slices.Clone(m.ToolCalls), slices.Clone(m.Images), slices.Clone(m.Files)
	for i, c := range m.ToolCalls {
		m.ToolCalls[i] = ToolCall{ID: db.Text(c.ID), Name: db.Text(c.Name), Arguments: db.Text(c.Arguments)}
	}
	for i := range m.Images {
		m.Images[i].Name, m.Images[i].MediaType = db.Text(m.Images[i].Name), db.Text(m.Images[i].MediaType)
	}
	for i := range m.Files {
		f := &m.Files[i]
		f.Name, f.MediaType, f.Problem = db.Text(f.Name), db.Text(f.MediaType), db.Text(f.Problem)
	}
	return m
}

// InsertMessage stores a message with the State and SetAside that it has in the conversation with a row
// id, for the packages below this one, and returns it as it is read back.
func InsertMessage(ctx context.Context, tx db.Tx, conversation int64, m Message) (Message, error) {
	m = m.withValidText()
	m, err := addFiles(ctx, tx, conversation, m)
	if err != nil {
		return m, err
	}
	parts, err := db.JSONOrNull(m.Images, len(m.Images) == 0)
	if err != nil {
		return m, err
	}
	files, err := db.JSONOrNull(m.Files, len(m.Files) == 0)
	if err != nil {
		return m, err
	}
	calls, err := db.JSONOrNull(m.ToolCalls, len(m.ToolCalls) == 0)
	if err != nil {
		return m, err
	}
	sender, err := db.JSONOrNull(m.Sender, m.Sender == Sender{})
	if err != nil {
		return m, err
	}
	note, err := db.JSONOrNull(m.Note, m.Note.IsZero())
	if err != nil {
		return m, err
	}
	const insert = `
		INSERT INTO messages (conversation_id, seq, run_id, role, state, set_aside, internal, content, parts, files, tool_calls, tool_call_id, tool_name,
			tokens, sender, source_id, metadata, finish_reason, failed, reasoning, note, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	values := []any{
		conversation, m.Seq, m.RunID, m.Role, m.State, m.SetAside, m.Internal, m.Content, parts, files, calls, db.Nullable(m.ToolCallID), db.Nullable(m.ToolName),
		m.Tokens, sender, db.Nullable(m.SourceID), db.Nullable(string(m.Metadata)), db.Nullable(string(m.FinishReason)), m.Failed, db.Nullable(m.Reasoning), note, db.Millis(m.At),
	}
	if len(m.Images)+len(m.Files) == 0 { // nobody needs its row id, for which a server would have to answer first
		_, err = tx.ExecContext(ctx, insert, values...)
		return m, err
	}
	id, err := db.Insert(ctx, tx, insert, values...)
	if err != nil {
		return m, err
	}
	return m, claimFiles(ctx, tx, conversation, id, m)
}
