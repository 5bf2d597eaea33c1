package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/metadata"
)

func (c *Channel) appendOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "append-messages", Method: http.MethodPost, Path: pathOfSession + "/messages:append", Tags: []string{tagMessages},
			Summary: "Append messages", MaxBodyBytes: hosted.MaxBody, BodyReadTimeout: 5 * time.Minute,
			Description: "Adds one message, or a list of messages, to the active conversation. The model does not answer them.",
			Errors:      []int{http.StatusBadRequest, http.StatusForbidden, http.StatusServiceUnavailable},
		}, c.appendMessages).
			tells(http.StatusCreated, "What was appended", appendedList{}, jsonType).
			tells(http.StatusOK, "What the same request appended before", appendedList{}, jsonType),
	}
}

// appended is a message to be appended without a run, in OpenAI's shape.
type appended struct {
	Role       conversation.Role `json:"role" enum:"user,assistant,tool,system"`
	Content    string            `json:"content,omitempty"`
	Internal   bool              `json:"internal,omitempty"`
	Metadata   json.RawMessage   `json:"metadata,omitempty"`
	ToolCalls  []toolCall        `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
	Name       string            `json:"name,omitempty"`
	Failed     bool              `json:"failed,omitempty" doc:"For a tool's result: the call failed"`
}

type appendedList struct {
	Conversation chat      `json:"conversation"`
	Messages     []message `json:"messages" doc:"As they are stored"`
}

type appendMessages struct {
	OfSession
	IdempotencyKey string `header:"Idempotency-Key" doc:"Unique in the session: a repeat with the same key gets the first result, also after a restart" example:"task-42-log-1"`
	Body           posted
}

// appendMessages adds messages to a session's conversation without a run.
func (c *Channel) appendMessages(ctx context.Context, in *appendMessages) (*huma.StreamResponse, error) {
	key, err := ownKey(in.Key)
	if err != nil {
		return nil, err
	}
	if in.Body.Run != nil && *in.Body.Run {
		return nil, problem(http.StatusUnprocessableEntity, "body.run is true, and here messages are only appended. Send a message to be answered to /messages.")
	}
	return c.append(ctx, key, &postMessage{OfSession: in.OfSession, IdempotencyKey: in.IdempotencyKey, Body: in.Body})
}

// append adds messages to a session's conversation without a run. It answers 201,
// or 200 for a request that was made before.
func (c *Channel) append(ctx context.Context, key conversation.Key, in *postMessage) (*huma.StreamResponse, error) {
	list, err := in.Body.list()
	if err != nil {
		return nil, err
	}
	source := ""
	if in.IdempotencyKey != "" {
		if source, err = parseID(in.IdempotencyKey); err != nil {
			return nil, err
		}
	}
	messages := mapped(list, c.messageFrom)
	done, err := c.Store.Append(ctx, key, source, messages...)
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if !done.Repeated {
		status = http.StatusCreated
		c.Edited(key)
		c.Feed.Changed(key)
	}
	out := appendedList{c.chatOf(done.Conversation), mapped(done.Messages, func(m conversation.Message) message { return messageOf(done.Conversation.ID, m, "") })}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		_, w := humago.Unwrap(ctx)
		writeJSON(w, status, out)
	}}, nil
}

// list returns the messages to append: the list, or the one message that the
// other fields describe.
func (p posted) list() ([]appended, error) {
	one := appended{Role: p.Role, Content: p.Text, Internal: p.Internal, Metadata: p.Metadata, ToolCalls: p.ToolCalls, ToolCallID: p.ToolCallID, Name: p.Name}
	switch {
	case p.Stream:
		return nil, problem(http.StatusUnprocessableEntity, "With run=false there is nothing to stream.")
	case p.Files != nil:
		return nil, problem(http.StatusUnprocessableEntity, "Files go with a message that is answered, and not with run=false.")
	case p.Messages == nil:
		if one.Role == "" {
			one.Role = conversation.RoleUser
		}
		return []appended{one}, nil
	case one.Role != "" || one.Content != "" || one.Internal || one.Metadata != nil || one.ToolCalls != nil || one.ToolCallID != "" || one.Name != "":
		return nil, problem(http.StatusUnprocessableEntity, "Give one message, or a list in messages, and not both.")
	}
	return p.Messages, nil
}

func (c *Channel) messageFrom(a appended) conversation.Message {
	m := conversation.Message{
		Role: a.Role, Content: a.Content, Internal: a.Internal, Metadata: metadata.Object(a.Metadata), ToolCallID: a.ToolCallID, ToolName: a.Name,
		Failed: a.Failed && a.Role == conversation.RoleTool,
	}
	for _, call := range a.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, conversation.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	m.Tokens = c.Tokens(m)
	return m
}
