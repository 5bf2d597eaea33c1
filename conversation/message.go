package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"parley/conversation/internal/db"
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
	m.Stopped, m.FinishReason = m.State == stateStopped, FinishReason(finish.String)
	m.ToolCallID, m.ToolName, m.SourceID, m.Metadata = callID.String, toolName.String, sourceID.String, Metadata(metadata.String)
	if m.Failed = failed.Bool; !failed.Valid && m.Role == RoleTool { // stored before schema 18
		m.Failed = strings.HasPrefix(m.Content, "error: ")
	}
	m.At = db.FromMillis(at)
	return m, nil
}

// insertMessage stores a message and returns it as scanMessage would read it.
func insertMessage(ctx context.Context, tx *sql.Tx, conversation int64, m Message) (Message, error) {
	m.Content = db.Text(m.Content)
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
	m.State = ""
	if m.Stopped {
		m.State = stateStopped
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO messages (conversation_id, seq, run_id, role, state, internal, content, parts, files, tool_calls, tool_call_id, tool_name,
			tokens, sender, source_id, metadata, finish_reason, failed, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		conversation, m.Seq, m.RunID, m.Role, m.State, m.Internal, m.Content, parts, files, calls, db.Nullable(m.ToolCallID), db.Nullable(m.ToolName),
		m.Tokens, sender, db.Nullable(m.SourceID), db.Nullable(string(m.Metadata)), db.Nullable(string(m.FinishReason)), m.Failed, db.Millis(m.At))
	if err != nil || len(m.Images) == 0 {
		return m, err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return m, err
	}
	m.Images, err = insertImages(ctx, tx, id, m.Images)
	return m, err
}

func insertImages(ctx context.Context, tx *sql.Tx, message int64, images []Image) ([]Image, error) {
	stored := make([]Image, len(images))
	for n, image := range images {
		_, err := tx.ExecContext(ctx, `INSERT INTO images (message_id, n, data) VALUES (?, ?, ?)`, message, n, image.Data)
		if err != nil {
			return nil, err
		}
		image.Data, image.message, image.n = nil, message, n
		stored[n] = image
	}
	return stored, nil
}

// ImageData returns the bytes of an image: its own, or those that are stored.
func (s *Store) ImageData(ctx context.Context, image Image) ([]byte, error) {
	if image.Data != nil {
		return image.Data, nil
	}
	var data []byte
	err := s.db.QueryRowContext(ctx, `SELECT data FROM images WHERE message_id = ? AND n = ?`, image.message, image.n).Scan(&data)
	return data, db.Explain(err)
}

// ImageAt returns a picture of a conversation with its bytes: number n, from 0, of the
// message seq. The error is ErrNotFound if there is none.
func (s *Store) ImageAt(ctx context.Context, conversation string, seq int64, n int) (image Image, err error) {
	var parts []byte
	var images []Image
	err = s.db.QueryRowContext(ctx, `
		SELECT m.parts, i.data FROM messages m JOIN images i ON i.message_id = m.id
		WHERE m.conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0) AND m.seq = ? AND i.n = ?`,
		conversation, seq, n).Scan(&parts, &image.Data)
	if err == nil {
		err = json.Unmarshal(parts, &images)
	}
	if err == nil && n >= len(images) {
		err = ErrNotFound
	}
	if err != nil {
		return Image{}, db.Explain(fmt.Errorf("picture %d of message %d of %s: %w", n, seq, conversation, notFound(err)))
	}
	images[n].Data = image.Data
	return images[n], nil
}

func jsonOrNull(v any, empty bool) (sql.NullString, error) {
	if empty {
		return sql.NullString{}, nil
	}
	text, err := json.Marshal(v)
	return sql.NullString{String: string(text), Valid: true}, err
}

// SplitFiles returns what a person wrote in a message, without the lines about its
// files, and for each of m.Files the text that was read of it, "" for one that is
// only named. If the content does not have the lines, files is empty.
func (m Message) SplitFiles() (said string, files []string) {
	var b strings.Builder
	at := 0
	for _, f := range m.Files {
		if !f.isWithin(m.Content, at) {
			return m.Content, nil
		}
		b.WriteString(strings.TrimSuffix(m.Content[at:f.Lines.From], "\n"))
		files = append(files, m.Content[f.Body.From:f.Body.To])
		at = f.Lines.To
	}
	b.WriteString(m.Content[at:])
	return b.String(), files
}

// isWithin reports whether the extents of a file are parts of content behind at.
func (f File) isWithin(content string, at int) bool {
	if f.Lines.From < at || f.Lines.To < f.Lines.From || f.Lines.To > len(content) {
		return false
	}
	return f.Body == (Extent{}) || f.Lines.From <= f.Body.From && f.Body.From <= f.Body.To && f.Body.To <= f.Lines.To
}
