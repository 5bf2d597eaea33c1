package conversation

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Format is how a conversation reads as a file.
type Format string

const (
	FormatMarkdown Format = "md"   // what people and the assistant said
	FormatJSON     Format = "json" // that, and the tool calls with their results
)

// Transcript is a conversation as a file. It names the messages and does not
// hold them: its bytes are made when it is sent.
type Transcript struct {
	Name         string `json:"name"`         // of the file, without a folder
	Conversation string `json:"conversation"` // ID
	Format       Format `json:"format"`
	From         int64  `json:"from"`    // seq of the first message
	Through      int64  `json:"through"` // seq of the last
}

// Newest is the seq from which on the messages of a conversation have at most
// so many bytes of text, tool calls and results among them; that of the newest
// message where it alone has more.
func (s *Store) Newest(ctx context.Context, c Conversation, bytes int64) (from int64, err error) {
	rows, err := s.readers.QueryContext(ctx, `
		SELECT seq, octet_length(content) + coalesce(octet_length(tool_calls), 0) FROM messages
		WHERE conversation_id = ? ORDER BY seq DESC`, c.row)
	if err != nil {
		return 0, explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var seq, size int64
		if err := rows.Scan(&seq, &size); err != nil {
			return 0, err
		}
		if bytes -= size; bytes < 0 && from > 0 {
			break
		}
		from = seq
	}
	return from, explain(rows.Err())
}

// WriteTranscript writes a transcript, page by page. It is ErrNotFound when the
// conversation was deleted meanwhile.
func (s *Store) WriteTranscript(ctx context.Context, to io.Writer, t Transcript) error {
	var place string
	c, err := scanConversation(s.readers.QueryRowContext(ctx, selectConversations+`WHERE c.uuid = ? AND c.deleted = 0`, t.Conversation), &place)
	if err != nil {
		return fmt.Errorf("the transcript of %s: %w", t.Conversation, notFound(err))
	}
	out := bufio.NewWriter(to)
	write := writeMarkdown
	if t.Format == FormatJSON {
		write = writeJSON
	}
	if err := write(out, c, func(yield func(Message) error) error { return s.spoken(ctx, t, yield) }); err != nil {
		return err
	}
	return out.Flush()
}

// spoken hands out the messages of a transcript that people can read in the
// chat, and the tool calls between them.
func (s *Store) spoken(ctx context.Context, t Transcript, yield func(Message) error) error {
	for after := t.From - 1; after < t.Through; {
		page, err := s.records(ctx, t.Conversation, after)
		if err != nil || len(page) == 0 {
			return explain(err)
		}
		for _, r := range page {
			if r.Hidden() || r.Seq > t.Through {
				continue
			}
			if err := yield(r.Message); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Seq
	}
	return nil
}

type messages func(yield func(Message) error) error

func writeMarkdown(to *bufio.Writer, c Conversation, list messages) error {
	title := c.Title
	if title == "" {
		title = "Conversation"
	}
	fmt.Fprintf(to, "# %s\n\nBegun %s, conversation %s.\n", title, c.CreatedAt.Format("2006-01-02 15:04"), c.ID)
	day := ""
	return list(func(m Message) error {
		if m.Role == RoleTool || m.Content == "" {
			return nil
		}
		if d := m.At.Format("Monday, 2 January 2006"); d != day {
			day = d
			fmt.Fprintf(to, "\n## %s\n", day)
		}
		_, err := fmt.Fprintf(to, "\n**%s**, %s\n\n%s\n", speaker(m), m.At.Format("15:04"), strings.TrimRight(m.Content, "\n"))
		return err
	})
}

func speaker(m Message) string {
	switch {
	case m.Role != RoleUser && m.Stopped:
		return "Assistant (stopped)"
	case m.Role != RoleUser:
		return "Assistant"
	case m.Sender.Name != "":
		return m.Sender.Name
	}
	return "You"
}

// writtenMessage is a message in a JSON transcript.
type writtenMessage struct {
	Seq        int64      `json:"seq"`
	Role       Role       `json:"role"`
	At         time.Time  `json:"at"`
	Sender     string     `json:"sender,omitempty"`
	Content    string     `json:"content"`
	Images     []Image    `json:"images,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	Stopped    bool       `json:"stopped,omitempty"`
}

func writeJSON(to *bufio.Writer, c Conversation, list messages) error {
	title, err := json.Marshal(c.Title)
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "{\"id\":%q,\"title\":%s,\"created_at\":%q,\"messages\":[", c.ID, title, c.CreatedAt.Format(time.RFC3339))
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	separator := "\n"
	err = list(func(m Message) error {
		to.WriteString(separator)
		separator = ","
		return encoder.Encode(writtenMessage{
			Seq: m.Seq, Role: m.Role, At: m.At, Sender: m.Sender.Name, Content: m.Content, Images: m.Images,
			ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, ToolName: m.ToolName, Stopped: m.Stopped,
		})
	})
	if err != nil {
		return err
	}
	_, err = to.WriteString("]}\n")
	return err
}
