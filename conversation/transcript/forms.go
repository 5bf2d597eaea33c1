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

// Conversation is the form of a conversation in JSON. Later versions may add fields to it
// and to Message; present fields keep their names and meaning.
type Conversation struct {
	ID           string    `json:"id"`
	Title        string    `json:"title"`
	Active       bool      `json:"active"`
	MessageCount int64     `json:"message_count"`
	TokenCount   int64     `json:"token_count"`
	CreatedAt    time.Time `json:"created_at"` // like all times, in UTC and in the format of RFC 3339
	UpdatedAt    time.Time `json:"updated_at"`

	State state.State `json:"state,omitzero"` // the session state, which the model is always told
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
// (https://platform.openai.com/docs/api-reference/chat/create), with further
// fields.
type Message struct {
	Session      conversation.Key     `json:"session,omitempty"`           // only in JSONL: the key of the session
	Conversation string               `json:"conversation,omitempty"`      // only in JSONL: the ID of the conversation
	Title        string               `json:"title,omitempty"`             // only in JSONL, with the first message: the title of the conversation
	Told         state.State          `json:"conversation_state,omitzero"` // only in JSONL, with the first message: the session state
	Seq          int64                `json:"seq"`
	At           time.Time            `json:"at"`
	Role         conversation.Role    `json:"role"`
	Content      string               `json:"content"`
	Images       []Image              `json:"images,omitempty"`
	ToolCalls    []ToolCall           `json:"tool_calls,omitempty"`
	ToolCallID   string               `json:"tool_call_id,omitempty"`
	Name         string               `json:"name,omitempty"`   // of a tool's result: the name of the tool
	Failed       bool                 `json:"failed,omitempty"` // of a tool's result: whether the call failed
	Sender       *conversation.Sender `json:"sender,omitempty"`
	SourceID     string               `json:"source_id,omitempty"`
	Tokens       int                  `json:"tokens"`
	State        string               `json:"state,omitempty"` // "stopped", "replaced" or "undone"; "" for other messages
	Internal     bool                 `json:"internal,omitempty"`

	FinishReason steps.FinishReason `json:"finish_reason,omitempty"` // why an answer is incomplete: "length", "content_filter" or "cut_off"; "" if it is complete

	// The following fields are only in archives.
	Reasoning string          `json:"reasoning,omitempty"` // what the model thought before its answer
	Note      *Note           `json:"note,omitempty"`      // what the model was told in front of the message
	SetAside  *string         `json:"set_aside,omitempty"` // if another branch is chosen: the state that the message has on its own branch
	Run       int64           `json:"run,omitempty"`       // the ID of the run that added the message
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Files     []File          `json:"files,omitempty"`
}

// Note is the form in JSON of what the model was told in front of a message, as state.Told describes it.
type Note struct {
	Place   string  `json:"place,omitempty"`
	State   string  `json:"state,omitempty"`
	Numbers []int64 `json:"numbers,omitempty"` // the numbers of the rules and decisions in State
}

// Image is the form of a picture in JSON.
type Image struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int    `json:"size"`          // bytes
	Data      []byte `json:"data,omitzero"` // the bytes in base64, if they are exported
}

// File is the form in JSON of a file other than a picture. It is only in archives.
type File struct {
	Name      string       `json:"name"`
	MediaType string       `json:"media_type,omitempty"`
	Size      int64        `json:"size,omitempty"`    // bytes, as the platform said
	Lines     media.Extent `json:"lines"`             // where the content has lines about the file, as byte offsets
	Body      media.Extent `json:"body,omitzero"`     // the part of Lines that is the text of the file
	Problem   string       `json:"problem,omitempty"` // why the file could not be kept or read
	Data      []byte       `json:"data,omitzero"`     // the bytes in base64, if they are exported
}

// ToolCall is the form of a tool call in JSON.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // always "function"
	Function Function `json:"function"`
}

// Function is the tool that a tool call calls, with the arguments.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON, as the model wrote it
}

// NewMessage returns the JSON form of a message, without the fields that are only in JSONL or in archives.
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

// Marshal returns v as JSON in one line that can't control a terminal: it escapes all
// characters that are not printable.
func Marshal(v any) ([]byte, error) {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return []byte(Escape(strings.TrimSuffix(raw.String(), "\n"))), nil // outside of strings, JSON has only printable ASCII characters
}

// Escape returns text with every character that is not printable escaped as in a JSON
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
