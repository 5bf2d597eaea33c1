package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/state"
	"parley/conversation/steps"
)

// Conversation is the form of a conversation in JSON. Fields may be added to it
// and to Message; those that are there keep their names and meaning.
type Conversation struct {
	ID           string    `json:"id"`
	Title        string    `json:"title"`
	Active       bool      `json:"active"`
	MessageCount int64     `json:"message_count"`
	TokenCount   int64     `json:"token_count"`
	CreatedAt    time.Time `json:"created_at"` // UTC, RFC 3339, as all times
	UpdatedAt    time.Time `json:"updated_at"`

	State state.State `json:"state,omitzero"` // what of it the model is always told
}

// NewConversation returns the JSON form of a conversation.
func NewConversation(c conversation.Conversation) Conversation {
	return Conversation{
		ID:           c.ID,
		Title:        c.Title,
		Active:       c.Active,
		MessageCount: c.Messages,
		TokenCount:   c.Tokens,
		CreatedAt:    c.CreatedAt.UTC(),
		UpdatedAt:    c.UpdatedAt.UTC(),
		State:        c.State,
	}
}

// Message is the form of a message in JSON: that of the chat completions API
// (https://platform.openai.com/docs/api-reference/chat/create), with more
// fields beside it.
type Message struct {
	Session      conversation.Key     `json:"session,omitempty"`           // in JSONL
	Conversation string               `json:"conversation,omitempty"`      // in JSONL: the ID
	Title        string               `json:"title,omitempty"`             // in JSONL: of the conversation, with its first message
	Told         state.State          `json:"conversation_state,omitzero"` // in JSONL: likewise
	Seq          int64                `json:"seq"`
	At           time.Time            `json:"at"`
	Role         conversation.Role    `json:"role"`
	Content      string               `json:"content"`
	Images       []Image              `json:"images,omitempty"`
	ToolCalls    []ToolCall           `json:"tool_calls,omitempty"`
	ToolCallID   string               `json:"tool_call_id,omitempty"`
	Name         string               `json:"name,omitempty"`   // tool: its name
	Failed       bool                 `json:"failed,omitempty"` // tool: the call failed
	Sender       *conversation.Sender `json:"sender,omitempty"`
	SourceID     string               `json:"source_id,omitempty"`
	Tokens       int                  `json:"tokens"`
	State        string               `json:"state,omitempty"` // "stopped", "replaced", "undone"
	Internal     bool                 `json:"internal,omitempty"`

	FinishReason steps.FinishReason `json:"finish_reason,omitempty"` // "length", "content_filter": why an answer is not whole

	// In archives:
	Reasoning string          `json:"reasoning,omitempty"` // what the model thought before its answer
	Note      *Note           `json:"note,omitempty"`      // what the model was told in front of it
	SetAside  *string         `json:"set_aside,omitempty"` // the state that the message has on its branch, while another branch is chosen
	Run       int64           `json:"run,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Files     []File          `json:"files,omitempty"`
}

// Note is the form of a note in JSON.
type Note struct {
	Place   string  `json:"place,omitempty"`
	State   string  `json:"state,omitempty"`
	Numbers []int64 `json:"numbers,omitempty"` // of the rules and decisions in State
}

// Image is the form of a picture in JSON.
type Image struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int    `json:"size"`          // bytes
	Data      []byte `json:"data,omitzero"` // in base64, where the record has them
}

// File is the form in JSON of a file other than a picture, in archives.
type File struct {
	Name      string       `json:"name"`
	MediaType string       `json:"media_type,omitempty"`
	Size      int64        `json:"size,omitempty"`    // bytes, as the platform said
	Lines     media.Extent `json:"lines"`             // the lines about the file, in the content, in bytes
	Body      media.Extent `json:"body,omitzero"`     // of these, the text of the file
	Problem   string       `json:"problem,omitempty"` // why it could not be kept or read
	Data      []byte       `json:"data,omitzero"`     // in base64, where the record has them
}

// ToolCall is the form of a tool call in JSON.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // always "function"
	Function Function `json:"function"`
}

// Function is what a tool call calls.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// NewMessage returns the JSON form of a message.
func NewMessage(r conversation.Message) Message {
	m := Message{
		Seq:        r.Seq,
		At:         r.At.UTC(),
		Role:       r.Role,
		Content:    r.Content,
		ToolCallID: r.ToolCallID,
		Name:       r.ToolName,
		Failed:     r.Failed,
		SourceID:   r.SourceID,
		Tokens:     r.Tokens,
		State:      r.State,
		Internal:   r.Internal,

		FinishReason: r.FinishReason,
	}
	for _, image := range r.Images {
		m.Images = append(m.Images, Image{Name: image.Name, MediaType: image.MediaType, Size: image.Size, Data: image.Data})
	}
	for _, call := range r.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: call.ID, Type: "function", Function: Function{Name: call.Name, Arguments: call.Arguments}})
	}
	if r.Sender != (conversation.Sender{}) {
		m.Sender = &r.Sender
	}
	return m
}

// Marshal returns v as JSON that can't control a terminal: it escapes characters that
// do not print.
func Marshal(v any) ([]byte, error) {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return []byte(Escape(strings.TrimSuffix(raw.String(), "\n"))), nil // outside of strings JSON is ASCII that prints
}

// Escape returns text with every character that does not print escaped as in a JSON
// string.
func Escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
