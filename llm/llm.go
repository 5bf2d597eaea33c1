// Package llm calls models of OpenAI-compatible servers. A Client streams answers, and
// retries; a Counter counts tokens; Choose decides which model is used; Offline stands
// in where there is none.
package llm

import (
	"encoding/json"
	"fmt"
	"time"
)

// Message is one message of the list that a model is sent.
type Message struct {
	Role       string // system, user, assistant, tool
	Content    string
	Note       string  // user: what the gateway tells the model with the message; sent before the content
	Images     []Image // user: shown after the content
	Name       string  // tool: the tool's name
	ToolCalls  []ToolCall
	ToolCallID string
}

// Image is an image for a model that takes them.
type Image struct {
	MediaType string // "image/png", "image/jpeg", "image/webp" or "image/gif"
	Data      []byte
}

// ToolCall is a tool call that the model asks for.
type ToolCall struct {
	ID        string // unique within the response, never empty
	Name      string
	Arguments string // JSON as the model wrote it, which may be broken
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of the arguments
	Strict      bool            // the server makes the model keep to the schema
}

// Request is one call of a model.
type Request struct {
	Messages []Message
	Tools    []Tool   // must not be changed after the call, since its encoding is cached
	InWords  bool     // the model must not call the tools, which are sent all the same
	Options  *Options // nil: as configured

	// CacheKey is the same for calls that begin alike, and says nothing about people. It
	// helps servers that are known to take one to find what they have read; "" = none.
	CacheKey string

	// Attempted, if it is not nil, is called after every attempt, from the calling
	// goroutine.
	Attempted func(Attempt)
}

// Delta is a piece of the answer as it streams in.
type Delta struct {
	Text  string
	Reset bool // another attempt follows: the text so far is void
}

// The finish reasons of an answer that was cut off. Other spellings of servers are read
// as these.
const (
	FinishLength        = "length"         // at the limit of tokens
	FinishContentFilter = "content_filter" // by the provider, which withholds the rest
)

// Response is an answer. At least one of Text and ToolCalls is not empty.
type Response struct {
	Text         string
	ToolCalls    []ToolCall // may be incomplete in an answer that was cut off; they must not be run then
	FinishReason string     // stop, length, tool_calls, content_filter, or as the server says; "" when it does not say
	Usage        Usage      // zero when the server does not say
	Model        string     // as the server names it
}

// IsCut reports whether the answer was cut off.
func (r Response) IsCut() bool { return isCut(r.FinishReason) }

// Usage is how many tokens a call has used, as the server counts them.
type Usage struct {
	Prompt     int
	Cached     int // of Prompt: those that the server took from its cache
	Completion int
}

// Kind is the kind of a failure, by what can be done about it.
type Kind int

const (
	KindTemporary   Kind = iota // 429, 5xx, timeout, refused connection, cut stream, garbage, empty answer; was retried
	KindRejected                // 400, 404, 422: this request will never succeed
	KindAuth                    // 401, 403: the key or the account
	KindContextSize             // the list is longer than the model takes: shrink and call again
)

// Error is why a call failed, after the retries that its kind allows. User is a sentence
// for the person in the chat, without the server's words. Err is the full error for the
// log, without secrets.
type Error struct {
	Kind       Kind
	Status     int           // HTTP status, 0 when there was none
	RetryAfter time.Duration // the wait that the server has asked for, 0 for none
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
