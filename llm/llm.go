// Package llm talks to OpenAI-compatible models: streaming, retries, usage,
// token counting, and a built-in offline model that stands in for one.
package llm

import (
	"encoding/json"
	"fmt"
	"time"
)

// Message is one entry of the list that a model is sent.
type Message struct {
	Role       string // system, user, assistant, tool
	Content    string
	Images     []Image // user: shown after the content
	Name       string  // tool: the tool's name
	ToolCalls  []ToolCall
	ToolCallID string
}

// Image is a picture for a model that sees.
type Image struct {
	MediaType string // "image/png", "image/jpeg", "image/webp" or "image/gif"
	Data      []byte
}

// ToolCall is a call that the model asks for.
type ToolCall struct {
	ID        string // unique within the response, never empty
	Name      string
	Arguments string // JSON as the model wrote it, which may be broken
}

// Tool is what a model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of the arguments
}

// Request is one call of a model.
type Request struct {
	Messages []Message
	Tools    []Tool // not to be changed after the call: the same list is encoded once

	// Attempted is told of every attempt when it is over, from the calling
	// goroutine. nil = nobody asks.
	Attempted func(Attempt)
}

// Delta is a piece of the answer as it streams in.
type Delta struct {
	Text  string
	Reset bool // a failed attempt is made again: what streamed so far is void
}

// The finish reasons of an answer that is cut: the model would have written
// more. Other spellings of servers are read as these.
const (
	FinishLength        = "length"         // the limit of tokens is reached
	FinishContentFilter = "content_filter" // the provider withholds the rest
)

// Response is an answer. At least one of Text and ToolCalls is not empty.
type Response struct {
	Text         string
	ToolCalls    []ToolCall // of an answer that was cut they may be incomplete, and must not be run
	FinishReason string     // stop, length, tool_calls, content_filter, or as the server says; "" when it does not say
	Usage        Usage      // zero when the server does not say
	Model        string     // as the server names it
}

// IsCut reports whether the answer is not whole.
func (r Response) IsCut() bool { return isCut(r.FinishReason) }

// Usage is what a call cost, in tokens, as the server counts them.
type Usage struct {
	Prompt     int
	Completion int
}

// Kind says what to do about a failed call.
type Kind int

const (
	KindTemporary   Kind = iota // 429, 5xx, timeout, refused connection, cut stream, garbage, empty answer: tried again already
	KindRejected                // 400, 404, 422: this request will never do
	KindAuth                    // 401, 403: the key or the account
	KindContextSize             // the list is longer than the model takes: shrink and call again
)

// Error is why a call failed, after the retries that its kind allows.
// User is a sentence for the person in the chat, without the server's words;
// Err is in full, for the log, without secrets.
type Error struct {
	Kind       Kind
	Status     int           // HTTP status, 0 when there was none
	RetryAfter time.Duration // what the server asked to wait, 0 when it did not say
	Limit      int           // KindContextSize: tokens that the model takes, as the server says; 0 when it does not say
	User       string
	Err        error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("model call failed with status %d: %v", e.Status, e.Err)
	}
	return fmt.Sprintf("model call failed: %v", e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
