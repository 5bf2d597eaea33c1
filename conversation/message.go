package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"strings"

	"parley/conversation/internal/db"
	"parley/conversation/steps"
)

// Message rows, as they are read and written.

const selectMessages = `
	SELECT id, seq, run_id, role, state, internal, content, parts, files, tool_calls, tool_call_id, tool_name, tokens, sender, source_id, metadata, finish_reason, failed, created_at
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

func scanMessage(rows *sql.Rows) (m Message, err error) {
	var id, at int64
	var parts, files, calls, sender []byte
	var callID, toolName, sourceID, metadata, finish sql.NullString
	var failed sql.NullBool
	err = rows.Scan(&id, &m.Seq, &m.RunID, &m.Role, &m.State, &m.Internal, &m.Content, &parts, &files, &calls, &callID, &toolName, &m.Tokens,
		&sender, &sourceID, &metadata, &finish, &failed, &at)
	if err != nil {
		return Message{}, err
	}
	for _, column := range []struct {
		json []byte
		into any
	}{{parts, &m.Images}, {files, &m.Files}, {calls, &m.ToolCalls}, {sender, &m.Sender}} {
		if len(column.json) > 0 {
			if err := json.Unmarshal(column.json, column.into); err != nil {
				return Message{}, err
			}
		}
	}
	for n := range m.Images {
		m.Images[n].message, m.Images[n].n = id, n
	}
	m.Stopped, m.FinishReason = m.State == stateStopped, steps.FinishReason(finish.String)
	m.ToolCallID, m.ToolName, m.SourceID, m.Metadata = callID.String, toolName.String, sourceID.String, Metadata(metadata.String)
	if m.Failed = failed.Bool; !failed.Valid && m.Role == RoleTool { // stored before schema 18
		m.Failed = strings.HasPrefix(m.Content, "error: ")
	}
	m.At = db.FromMillis(at)
	return m, nil
}

// insertMessage stores a new message and returns it as scanMessage would read it.
func insertMessage(ctx context.Context, tx *sql.Tx, conversation int64, m Message) (Message, error) {
	m.State = ""
	if m.Stopped {
		m.State = stateStopped
	}
	return insertMessageAs(ctx, tx, conversation, m)
}

// insertMessageAs is insertMessage for a message that has its state.
func insertMessageAs(ctx context.Context, tx *sql.Tx, conversation int64, m Message) (Message, error) {
	m.Content = db.Text(m.Content)
	m, err := addFiles(ctx, tx, conversation, m)
	if err != nil {
		return m, err
	}
	parts, err := jsonOrNull(m.Images, len(m.Images) == 0)
	if err != nil {
		return m, err
	}
	files, err := jsonOrNull(m.Files, len(m.Files) == 0)
	if err != nil {
		return m, err
	}
	calls, err := jsonOrNull(m.ToolCalls, len(m.ToolCalls) == 0)
	if err != nil {
		return m, err
	}
	sender, err := jsonOrNull(m.Sender, m.Sender == Sender{})
	if err != nil {
		return m, err
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO messages (conversation_id, seq, run_id, role, state, internal, content, parts, files, tool_calls, tool_call_id, tool_name,
			tokens, sender, source_id, metadata, finish_reason, failed, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		conversation, m.Seq, m.RunID, m.Role, m.State, m.Internal, m.Content, parts, files, calls, db.Nullable(m.ToolCallID), db.Nullable(m.ToolName),
		m.Tokens, sender, db.Nullable(m.SourceID), db.Nullable(string(m.Metadata)), db.Nullable(string(m.FinishReason)), m.Failed, db.Millis(m.At))
	if err != nil || len(m.Images)+len(m.Files) == 0 {
		return m, err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return m, err
	}
	return m, claimFiles(ctx, tx, conversation, id, m)
}

func jsonOrNull(v any, empty bool) (sql.NullString, error) {
	if empty {
		return sql.NullString{}, nil
	}
	text, err := json.Marshal(v)
	return sql.NullString{String: string(text), Valid: true}, err
}
