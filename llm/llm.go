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
	Note       string  // only with role user: what the gateway tells the model with the message; sent before the content
	Images     []Image // only with role user: shown after the content
	Name       string  // only with role tool: the tool's name
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
	Options  *Options // nil: the options of the configuration

	// Temperature, if it is not nil, and MaxOutputTokens, if it is not 0, take the place of
	// those of the configuration. Options come before them.
	Temperature     *float64
	MaxOutputTokens int

	// Rebuild, if it is not nil, returns the messages for a fallback model that takes so many
	// tokens, fewer than the model itself; nil if there is no room for them.
	Rebuild func(contextWindow int) []Message

	// CacheKey is the same for calls that begin alike, and says nothing about people. It
	// helps servers that are known to take one to find what they have read; "" = none.
	CacheKey string

	// Final says that the caller can't take back text that was emitted. Text that turns out to
	// be a thought at its end then stays text.
	Final bool

	// Background says that nobody waits for the answer. The call is not made while a model is in trouble, and its
	// outcome does not count for whether one is.
	Background bool

	// Once says that each model is tried once.
	Once bool

	// Attempted, if it is not nil, is called after every attempt, from the calling
	// goroutine.
	Attempted func(Attempt)

	// Waiting, if it is not nil, is called before a wait for the next attempt, from the
	// calling goroutine.
	Waiting func(Waiting)
}

// Waiting is a wait for the next attempt at a model call.
type Waiting struct {
	Kind Kind          // kind of the failure before the wait
	For  time.Duration // time until the next attempt
	Next string        // the fallback model that is called next; "" = the same model again
}

// Words returns what a person in the chat is told meanwhile.
func (w Waiting) Words() string {
	if w.Next != "" {
		return w.why() + " Trying " + printable(w.Next) + "."
	}
	return w.Untimed() + " in " + InWords(w.For) + "."
}

// Untimed returns Words without the time at their end, for pages that count down to it: "⏳ The model is
// busy. Trying again". It returns "" if they name no time.
func (w Waiting) Untimed() string {
	if w.Next != "" {
		return ""
	}
	return w.why() + " Trying again"
}

func (w Waiting) why() string { return "⏳ " + w.Kind.words() }

// WaitWords returns what a person in the chat is told whose message waits until the model works again.
func (k Kind) WaitWords() string { return "⏳ " + k.words() + " I will answer when it is back." }

// words says what is wrong with the model, for a person in the chat.
func (k Kind) words() string {
	switch k {
	case KindBusy:
		return "The model is busy."
	case KindUnavailable, KindNotAPI:
		return "The model's server is in trouble."
	case KindUnreachable:
		return "The model can't be reached."
	case KindCutOff:
		return "The model's answer broke off."
	case KindUnauthorized, KindNoCredit, KindUnknownModel:
		return "The model can't be used now."
	}
	return "The model does not answer."
}

// Delta is a piece of the answer as it streams in.
type Delta struct {
	Text      string
	Reasoning string // a piece of what the model thinks before it answers
	Reset     bool   // another attempt follows: all earlier pieces are void
	Model     string // the model that writes the answer, as Response.Model names it
}

// The finish reasons of an answer that was cut off. Other spellings of servers are read
// as these.
const (
	FinishLength        = "length"         // the answer reached the limit of its tokens
	FinishContentFilter = "content_filter" // the provider's content filter withheld the rest
	FinishCutOff        = "cut_off"        // the stream broke off, again and again; the text is what came
)

// Response is an answer. At least one of Text, Images and ToolCalls is not empty.
type Response struct {
	Text         string
	Reasoning    string     // what the model thought before it answered; it is not sent to a model again
	Images       []Image    // images that the model has made
	ToolCalls    []ToolCall // may be incomplete in an answer that was cut off; they must not be run then
	FinishReason string     // stop, tool_calls, a Finish constant, or another word of the server; "" when the server does not say
	Usage        Usage      // zero when the server does not say
	Model        string     // name of the model that has answered: that of its section [models.NAME], else as the server names it
	Fallback     *Fallback  // nil: the model that was asked has answered
}

// Fallback says why a fallback model has answered.
type Fallback struct {
	Of   string // the model that was asked first
	Kind Kind   // kind of the failure of that model
}

// Words returns what a person in the chat is told below the answer of another model.
func (f Fallback) Words(answered string) string {
	why := "failed"
	switch f.Kind {
	case KindBusy:
		why = "is busy"
	case KindUnreachable:
		why = "can't be reached"
	case KindUnavailable, KindNotAPI:
		why = "is in trouble"
	case KindTimeout:
		why = "does not answer"
	case KindUnknownModel:
		why = "is not there"
	case KindUnauthorized, KindNoCredit:
		why = "can't be used now"
	}
	return fmt.Sprintf("↪ *Answered by %s, since %s %s.*", printable(answered), printable(f.Of), why)
}

// IsCut reports whether the answer was cut off.
func (r Response) IsCut() bool { return isCut(r.FinishReason) }

// Usage is how many tokens a call has used, as the server counts them.
type Usage struct {
	Prompt     int
	Cached     int // tokens of Prompt that the server took from its cache
	Completion int
}
