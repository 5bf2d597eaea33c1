package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"parley/plaintext"
)

var (
	errEmpty    = errors.New("the answer was empty")
	errCut      = errors.New("the stream ended in the middle")
	errFiltered = errors.New("the answer was withheld by a content filter")
	errUsedUp   = errors.New("the answer reached its limit of tokens before it held a word, perhaps by reasoning: " +
		"raise max_output_tokens in [llm], or the server's own limit")
)

// finishReasons maps the finish reasons of servers to those of the API.
var finishReasons = map[string]string{
	"max_tokens":                    FinishLength, // Anthropic; Gemini in capitals
	"max_output_tokens":             FinishLength, // OpenAI's Responses API
	"model_length":                  FinishLength, // Mistral
	"model_context_window_exceeded": FinishLength, // Anthropic, Zhipu

	"content_filtered":     FinishContentFilter, // Bedrock
	"guardrail_intervened": FinishContentFilter, // Bedrock
	"refusal":              FinishContentFilter, // Anthropic
	"sensitive":            FinishContentFilter, // Zhipu
	"safety":               FinishContentFilter, // Gemini, in capitals, like those below
	"recitation":           FinishContentFilter,
	"blocklist":            FinishContentFilter,
	"prohibited_content":   FinishContentFilter,
	"spii":                 FinishContentFilter,

	"insufficient_system_resource": finishBroken, // DeepSeek
	"network_error":                finishBroken, // Zhipu
}

// finishBroken is the finish reason of an answer that failed in the middle.
const finishBroken = "broken"

// finishReason returns the API's name for a server's finish reason, or the server's
// own where the API has none.
func finishReason(said string) string {
	if known := finishReasons[strings.ToLower(said)]; known != "" {
		return known
	}
	return said
}

// isCut reports whether an answer with this finish reason is incomplete.
func isCut(reason string) bool {
	return reason == FinishLength || reason == FinishContentFilter || reason == FinishCutOff
}

// chunk is one event of the stream. It has the fields that are used, also those that
// servers send beyond the API's reference.
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`

	// vLLM writes errors so: {"object":"error","message":...,"code":400}.
	Object  string          `json:"object"`
	Message string          `json:"message"`
	Code    json.RawMessage `json:"code"`
}

type choice struct {
	Index        int    `json:"index"`
	Delta        delta  `json:"delta"`
	Message      delta  `json:"message"` // holds the whole answer when it is not a stream; some servers repeat there what has come of one
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content   any             `json:"content"` // a string, null, or from some servers a list of parts
	Refusal   any             `json:"refusal"`
	Reasoning any             `json:"reasoning"`         // sent by OpenRouter and newer vLLM
	Thought   any             `json:"reasoning_content"` // sent by DeepSeek and vLLM
	Images    any             `json:"images"`            // sent by OpenRouter: a list of parts
	ToolCalls []toolCallDelta `json:"tool_calls"`
}

// isEmpty reports whether a delta holds no piece of the answer.
func (d *delta) isEmpty() bool {
	return isNothing(d.Content) && isNothing(d.Refusal) && isNothing(d.Reasoning) && isNothing(d.Thought) && isNothing(d.Images) && len(d.ToolCalls) == 0
}

// isNothing reports whether a field of a delta is missing or an empty text.
func isNothing(field any) bool { return field == nil || field == "" }

type toolCallDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt     float64 `json:"prompt_tokens"`
	Completion float64 `json:"completion_tokens"`
	Total      float64 `json:"total_tokens"`
	Details    struct {
		Cached float64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CacheHit float64 `json:"prompt_cache_hit_tokens"` // sent by DeepSeek in place of cached_tokens
}

// maxTokens is the most tokens that a server is believed to have counted for a call.
const maxTokens = 1e9

// tokens returns the usage as it is counted here. No more can come from a cache than
// was sent. Gemini and xAI leave what the model has thought out of the completion, and
// count it in the total alone.
func (u usage) tokens() Usage {
	believed := func(n float64) float64 { return min(max(n, 0), maxTokens) }
	prompt := believed(u.Prompt)
	cached := min(max(u.Details.Cached, u.CacheHit, 0), prompt)
	completion := believed(u.Completion)
	if prompt > 0 {
		completion = max(completion, believed(u.Total-prompt))
	}
	return Usage{Prompt: int(prompt), Cached: int(cached), Completion: int(completion)}
}

// textOf returns the text of a content, which is a string or a list of parts. A field
// with UnmarshalJSON would make the decoding of each chunk twice as expensive.
func textOf(content any) string {
	parts, _ := content.([]any)
	text, _ := content.(string)
	for _, part := range parts {
		if fields, ok := part.(map[string]any); ok && fields["type"] == "text" {
			piece, _ := fields["text"].(string)
			text += piece
		}
	}
	return text
}

// arguments is a string of JSON, or, from some servers, the JSON itself.
type arguments string

func (a *arguments) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] != '"' && !bytes.Equal(raw, []byte("null")) {
		*a = arguments(raw)
		return nil
	}
	return json.Unmarshal(raw, (*string)(a))
}

// answer gathers the chunks of one answer.
type answer struct {
	out         *output
	room        int // bytes of text and tool calls that are still read
	thoughtRoom int // bytes of what the model thinks that are still kept
	secrets     *plaintext.Redactor
	finishing   func() // called once the finish reason has arrived

	calls    callList
	offered  []Tool // tools of the request
	streamed bool   // a delta held a piece of the answer, so that no message does
	finish   string
	thinking thinking
	marked   bool // the text holds what may be the end of a thought

	pictures     []Image
	pictureBytes int
	lost         int // number of pictures that were dropped: unreadable, or beyond maxPictures or maxPictureBytes

	usage usage
	named bool // the configuration names the model: what the server calls it does not count
}

// read takes chunks from recv until the answer is complete or has reached its limit of
// bytes. After a finish reason it is complete, however the stream ends.
func (a *answer) read(recv func() ([]byte, error)) error {
	for {
		raw, err := recv()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), a.finish != "":
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return errCut
		case errors.Is(err, errTooLong) && a.hasBegun():
			a.finish = FinishLength
			return nil
		default:
			return err
		}
		err = a.add(raw)
		if a.finish != "" && err != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if a.room < 0 {
			a.finish = FinishLength
			return nil
		}
	}
}

func (a *answer) add(raw []byte) error {
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil && !isMistyped(err) {
		return fmt.Errorf("%w: %s", errNotJSON, excerpt(a.secrets.Hide(string(raw))))
	}
	if c.isError() {
		return &statusError{status: c.status(), body: a.secrets.Hide(string(raw))}
	}
	if c.Model != "" && !a.named {
		a.out.model = clean(c.Model)
	}
	if c.Usage != nil {
		a.usage = *c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index == 0 { // only one choice was requested
			a.choose(choice)
		}
	}
	return nil
}

// isMistyped reports whether the only fault of the JSON was that fields had another
// type than expected. Those are skipped.
func isMistyped(err error) bool {
	var mistyped *json.UnmarshalTypeError
	return errors.As(err, &mistyped)
}

func (a *answer) choose(c choice) {
	a.streamed = a.streamed || !c.Delta.isEmpty()
	for _, d := range []*delta{&c.Delta, &c.Message} {
		if d == &c.Message && a.streamed {
			break
		}
		if thought := textOf(d.Thought); thought != "" { // some servers give both
			a.think(thought)
		} else {
			a.think(textOf(d.Reasoning))
		}
		thought, text := a.thinking.add(textOf(d.Content))
		a.think(thought)
		a.write(text)
		a.write(textOf(d.Refusal))
		a.addPictures(d.Content)
		a.addPictures(d.Images)
		for _, call := range d.ToolCalls {
			a.out.arrived()
			if a.room -= len(call.Function.Name) + len(call.Function.Arguments) + callRoom; a.room >= 0 {
				a.calls.add(call)
			}
		}
	}
	if c.FinishReason != "" {
		if !isCut(a.finish) { // some servers give another reason at the end of the stream
			a.finish = finishReason(c.FinishReason)
		}
		a.finishing()
	}
}

// callRoom is how many bytes of the room each piece of a tool call takes beside its
// text. It bounds the number of calls without arguments.
const callRoom = 16

// think adds a piece of what the model thinks, as far as there is room for that.
func (a *answer) think(text string) {
	if a.thoughtRoom -= len(text); a.thoughtRoom >= 0 {
		a.out.think(text)
	}
}

// write adds a piece of text and cuts it where the room ends.
func (a *answer) write(text string) {
	defer a.findThought(len(a.out.text()))
	if room := max(a.room, 0); len(text) > room {
		a.out.write(text[:runeStart(text, room)])
	} else {
		a.out.write(text)
	}
	a.room -= len(text)
}

// findThought takes a thought without a beginning out of the text, once something has come behind its end. before is the length
// of the text that was looked through before.
func (a *answer) findThought(before int) {
	all := a.out.text()
	if a.out.final || a.out.thoughts.Len() > 0 {
		return
	}
	if a.marked = a.marked || strings.Contains(all[max(0, before-longestMark):], "</think"); !a.marked {
		return
	}
	if thought, text, is := splitThought(all); is && text != "" {
		a.out.reset()
		a.out.think(thought)
		a.out.write(text)
	}
}

// hasBegun reports whether anything was said.
func (a *answer) hasBegun() bool {
	return a.out.text() != "" || len(a.calls.calls) > 0 || len(a.pictures) > 0
}

// response returns the answer once it is read. A response that comes with an error is
// for the record of the attempt.
func (a *answer) response() (Response, error) {
	thought, text := a.thinking.rest()
	a.think(thought)
	a.write(text)
	r := Response{
		FinishReason: a.finish,
		Usage:        a.usage.tokens(),
	}
	if a.finish == finishBroken {
		return r, errCut
	}
	calls := a.calls.toolCalls(a.offered)
	if a.finish == FinishContentFilter {
		calls = nil // the provider has withheld the answer
	}
	if a.finish == FinishContentFilter {
		a.pictures = nil
	}
	if strings.TrimSpace(a.out.text()) == "" && len(calls) == 0 && len(a.pictures) == 0 {
		switch a.finish {
		case FinishContentFilter:
			return r, errFiltered
		case FinishLength:
			return r, errUsedUp
		}
		return r, errEmpty
	}
	r.Text, r.Reasoning, r.ToolCalls, r.Images, r.Model = a.out.text(), a.out.thought(), calls, a.pictures, a.out.model
	return r, nil
}

// isError reports whether the chunk is an error instead of a piece of the answer.
func (c *chunk) isError() bool {
	if len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")) || c.Object == "error" {
		return true
	}
	for _, choice := range c.Choices {
		if choice.FinishReason == "error" { // OpenRouter
			return true
		}
	}
	return false
}

// status returns the HTTP status that an error names as its code, or 0.
func (c *chunk) status() int {
	code := c.Code
	var inner struct {
		Code json.RawMessage `json:"code"`
	}
	if json.Unmarshal(c.Error, &inner) == nil && len(inner.Code) > 0 {
		code = inner.Code
	}
	status, err := strconv.Atoi(strings.Trim(string(code), `"`))
	if err != nil || status < 400 || status > 599 {
		return 0
	}
	return status
}
