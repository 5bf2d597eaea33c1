package api

import (
	"encoding/json"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/media"
	"parley/conversation/metadata"
	"parley/conversation/runs"
)

// The shapes of what the API tells, as JSON.

type session struct {
	Key           conversation.Key `json:"key" doc:"CHANNEL:NAME" example:"api:task-42"`
	Channel       string           `json:"channel" example:"api"`
	Place         string           `json:"place,omitempty" doc:"What people call the place"`
	Title         string           `json:"title,omitempty" doc:"The title of its active conversation, or else of its newest one. While the first message waits, the beginning of that message"`
	Active        bool             `json:"active" doc:"It has an active conversation"`
	Conversations int64            `json:"conversations"`
	Messages      int64            `json:"messages" doc:"The number of messages in all conversations"`
	Tokens        int64            `json:"tokens"`
	Waiting       int64            `json:"waiting" doc:"The number of messages that are not answered yet"`
	Metadata      json.RawMessage  `json:"metadata,omitempty" doc:"A JSON object that belongs to the program that uses the session"`
	Model         string           `json:"model,omitempty" doc:"The model that was chosen for the session; absent: the usual one answers"`
	Agent         string           `json:"agent,omitempty" doc:"The agent that was chosen for the session; absent: the usual one answers"`
	CreatedAt     time.Time        `json:"created_at"`
	UsedAt        time.Time        `json:"used_at"`
	ExpiresAt     *time.Time       `json:"expires_at,omitempty" doc:"When the active conversation expires: a later message begins a new one. Absent if none is active, or it never expires"`
}

func (c *Channel) sessionOf(s catalog.Session) session {
	return session{
		Key: s.Key, Channel: s.Key.Channel(), Place: s.Place, Title: s.Title, Active: s.Active, Conversations: s.Conversations, Messages: s.Messages,
		Tokens: s.Tokens, Waiting: s.Waiting, Metadata: object(s.Metadata), Model: s.Model, Agent: s.Agent, CreatedAt: s.CreatedAt.UTC(), UsedAt: s.UsedAt.UTC(),
		ExpiresAt: c.expiresAt(s.Active, s.UsedAt),
	}
}

// expiresAt returns when a conversation that was last used at a time is over, nil when
// that will not happen, or after the year 9999, which JSON can't write (RFC 3339).
func (c *Channel) expiresAt(active bool, used time.Time) *time.Time {
	if !active || c.Expiration == 0 {
		return nil
	}
	at := used.Add(c.Expiration).UTC()
	if at.Year() > 9999 {
		return nil
	}
	return &at
}

type chat struct {
	ID        string           `json:"id" doc:"Never changes" example:"019df0a2-5f3e-7c11-9d3a-5b1f0a7e2c44"`
	Session   conversation.Key `json:"session"`
	Title     string           `json:"title,omitempty"`
	Active    bool             `json:"active" doc:"The next message goes here; at most one conversation of a session is active"`
	Messages  int64            `json:"messages"`
	Tokens    int64            `json:"tokens"`
	Metadata  json.RawMessage  `json:"metadata,omitempty" doc:"A JSON object that belongs to the program that uses the conversation"`
	CreatedAt time.Time        `json:"created_at"`
	UpdatedAt time.Time        `json:"updated_at"`
	ExpiresAt *time.Time       `json:"expires_at,omitempty" doc:"When the conversation expires: a later message begins a new one. Absent for an archived one, and if conversations never expire"`
}

func (c *Channel) chatOf(of conversation.Conversation) chat {
	return chat{
		ID: of.ID, Session: of.Key, Title: of.Title, Active: of.Active, Messages: of.Messages, Tokens: of.Tokens, Metadata: object(of.Metadata),
		CreatedAt: of.CreatedAt.UTC(), UpdatedAt: of.UpdatedAt.UTC(),
		ExpiresAt: c.expiresAt(of.Active && of.Messages > 0, of.UpdatedAt),
	}
}

// message is a message in the shape of OpenAI's chat completions, with what the
// gateway adds.
type message struct {
	Role       conversation.Role `json:"role" enum:"user,assistant,tool,system"`
	Content    string            `json:"content"`
	Name       string            `json:"name,omitempty" doc:"The tool's name"`
	ToolCalls  []toolCall        `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty" doc:"The call that a tool message answers"`
	Seq        int64             `json:"seq,omitempty" doc:"Place in the conversation, from 1"`
	PlatformID string            `json:"platform_id,omitempty" doc:"The platform's id of the message; for a program's own message, the id of its answer"`
	At         *time.Time        `json:"at,omitempty"`
	Sender     string            `json:"sender,omitempty" doc:"Who wrote it, where several people talk"`
	Images     []image           `json:"images,omitempty"`
	Files      []enclosedFile    `json:"files,omitempty" doc:"The files that came with the message, except for pictures"`
	Internal   bool              `json:"internal,omitempty" doc:"Only kept in the archive; people are not shown it"`
	State      string            `json:"state,omitempty" enum:"stopped,replaced,undone,left_out" doc:"Why it is not an ordinary message; left_out: the model was not shown it, since its sender wrote too many at once"`
	Finish     string            `json:"finish_reason,omitempty" enum:"length,content_filter,cut_off" doc:"For an assistant message: why it is incomplete"`
	Reasoning  string            `json:"reasoning,omitempty" doc:"For an assistant message: the model's reasoning before it, which is not sent to the model again"`
	Model      string            `json:"model,omitempty" doc:"For an assistant message: the model that wrote it"`
	Agent      string            `json:"agent,omitempty" doc:"For an assistant message: the agent that wrote it; absent: the default one"`
	Run        int64             `json:"run,omitempty" doc:"The run that stored it; absent for appended messages"`
	Tokens     int               `json:"tokens,omitempty"`
	Metadata   json.RawMessage   `json:"metadata,omitempty" doc:"A JSON object that belongs to the program that appended it"`
}

// toolCall is a call in OpenAI's shape.
type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type" enum:"function" default:"function"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments" doc:"JSON as the model wrote it"`
}

type image struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int    `json:"size" doc:"Bytes"`
	URL       string `json:"url,omitempty" doc:"The address of its bytes"`
}

func imageOf(i media.Image, conversation string, seq int64, n int) image {
	shown := image{Name: i.Name, MediaType: i.MediaType, Size: i.Size}
	if conversation != "" && seq > 0 {
		shown.URL = imagePath(conversation, seq, n)
	}
	return shown
}

// enclosedFile is a file of a message that is no picture.
type enclosedFile struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size,omitempty" doc:"Bytes"`
	Kept      bool   `json:"kept" doc:"Its bytes can be downloaded from url"`
	URL       string `json:"url,omitempty"`
	Problem   string `json:"problem,omitempty" doc:"Why it could not be kept or read"`
}

// messageOf returns a message of the conversation with an ID, "" for one that is not stored.
func messageOf(id string, m conversation.Message, state string) message {
	shown := message{
		Role: m.Role, Content: m.Content, Name: m.ToolName, ToolCallID: m.ToolCallID, Seq: m.Seq, Sender: m.Sender.Name, Internal: m.Internal,
		State: state, Finish: string(m.FinishReason), Reasoning: m.Reasoning, Run: m.RunID, Tokens: m.Tokens, Metadata: object(m.Metadata),
	}
	shown.PlatformID, _, _ = strings.Cut(m.SourceID, " ") // behind it, a message of a program names its session
	if !m.At.IsZero() {
		at := m.At.UTC()
		shown.At = &at
	}
	for _, call := range m.ToolCalls {
		shown.ToolCalls = append(shown.ToolCalls, toolCall{ID: call.ID, Type: "function", Function: functionCall{call.Name, call.Arguments}})
	}
	for n, i := range m.Images {
		shown.Images = append(shown.Images, imageOf(i, id, m.Seq, n))
	}
	for n, f := range m.Files {
		file := enclosedFile{Name: f.Name, MediaType: f.MediaType, Size: f.Size, Kept: f.ID != 0, Problem: f.Problem}
		if file.Kept && id != "" && m.Seq > 0 {
			file.URL = filePath(id, m.Seq, n)
		}
		shown.Files = append(shown.Files, file)
	}
	return shown
}

// writtenBy returns the message with what has answered in its run, if it is the assistant's.
func (m message) writtenBy(by runs.Answered) message {
	if m.Role == conversation.RoleAssistant {
		m.Model, m.Agent = by.Model, by.Agent
	}
	return m
}

// object returns metadata as JSON, and nil for none.
func object(m metadata.Object) json.RawMessage {
	if m == "" {
		return nil
	}
	return json.RawMessage(m)
}

// mapped returns the results of to for a list. It is never nil, which JSON would
// show as null.
func mapped[A, B any](list []A, to func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = to(a)
	}
	return out
}
