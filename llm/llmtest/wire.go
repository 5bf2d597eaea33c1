package llmtest

import (
	"bytes"
	"encoding/json"
	"net/http"

	"parley/llm"
)

// request is the body of POST /chat/completions, as far as it is checked
// (https://platform.openai.com/docs/api-reference/chat/create). Other fields
// are refused as unknown.
type request struct {
	Model               string         `json:"model"`
	Messages            []message      `json:"messages"`
	Tools               []tool         `json:"tools"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options"`
	Temperature         *float64       `json:"temperature"`
	TopP                *float64       `json:"top_p"`
	N                   *int           `json:"n"`
	Stop                any            `json:"stop"`
	Seed                *int           `json:"seed"`
	MaxTokens           int            `json:"max_tokens"`
	MaxCompletionTokens int            `json:"max_completion_tokens"`
	ToolChoice          any            `json:"tool_choice"`
	ParallelToolCalls   *bool          `json:"parallel_tool_calls"`
	ReasoningEffort     string         `json:"reasoning_effort"`
	User                string         `json:"user"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string     `json:"role"`
	Content    content    `json:"content"`
	Refusal    *string    `json:"refusal"`
	Name       string     `json:"name"`
	ToolCalls  []toolCall `json:"tool_calls"`
	ToolCallID *string    `json:"tool_call_id"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	} `json:"function"`
}

// content is a string, null, or a list of parts of text.
type content struct {
	text  string
	given bool // not missing and not null
}

func (c *content) UnmarshalJSON(raw []byte) error {
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	c.given = true
	if raw[0] != '[' {
		return json.Unmarshal(raw, &c.text)
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		c.text += part.Text
	}
	return nil
}

// call is the request as a test reads it.
func (r *request) call(header http.Header) Call {
	c := Call{
		Model:       r.Model,
		Messages:    make([]llm.Message, len(r.Messages)),
		Stream:      r.Stream,
		Usage:       !r.Stream || r.StreamOptions != nil && r.StreamOptions.IncludeUsage,
		Temperature: r.Temperature,
		MaxTokens:   max(r.MaxTokens, r.MaxCompletionTokens),
		Header:      header,
	}
	for i, m := range r.Messages {
		c.Messages[i] = m.plain()
	}
	for _, t := range r.Tools {
		c.Tools = append(c.Tools, llm.Tool{
			Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters,
		})
	}
	return c
}

func (m *message) plain() llm.Message {
	plain := llm.Message{Role: m.Role, Content: m.Content.text, Name: m.Name}
	if m.ToolCallID != nil {
		plain.ToolCallID = *m.ToolCallID
	}
	for _, call := range m.ToolCalls {
		plain.ToolCalls = append(plain.ToolCalls, llm.ToolCall{
			ID: call.ID, Name: call.Function.Name, Arguments: *call.Function.Arguments,
		})
	}
	return plain
}
