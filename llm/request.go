package llm

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	openai "github.com/sashabaranov/go-openai"
)

// emptyText replaces the text of a message that has none: the API refuses a message
// without content, and some servers one of white space alone.
const emptyText = "(empty)"

// noParameters is the schema of a tool without parameters.
const noParameters = `{"type":"object","properties":{}}`

// template holds the parts that all requests to one model share.
type template struct {
	model               string
	temperature         float32
	maxTokens           int
	maxCompletionTokens int
	completionTokens    bool   // the server takes max_completion_tokens, not max_tokens
	effort              string // the reasoning effort of calls with tools
	cache               cacheHelp
	blind               bool // the model takes no images
	draws               bool // the model makes images where it is asked to
	tools               *toolCache
}

// newTemplate leaves out settings that the model is known to refuse, with a warning.
func newTemplate(model string, cfg Config, log *slog.Logger) template {
	t := template{model: model, cache: cacheHelpOf(cfg, model), tools: &toolCache{}, blind: slices.Contains(cfg.Blind, model), draws: slices.Contains(cfg.Draws, model)}
	if cfg.Temperature != nil && !t.setTemperature(*cfg.Temperature) {
		log.Warn("temperature left out, the model does not take it", "model", model)
	}
	// OpenAI's newer models take only max_completion_tokens, most other servers
	// only max_tokens.
	t.maxTokens = max(cfg.MaxOutputTokens, 1) // with 0, go-openai would not look
	t.completionTokens = isOpenAI(cfg.BaseURL) || !t.takes()
	t.maxTokens = cfg.MaxOutputTokens
	if t.completionTokens {
		t.maxTokens, t.maxCompletionTokens = 0, cfg.MaxOutputTokens
	}
	withTools := openai.ChatCompletionRequest{Model: model, Tools: []openai.Tool{{}}}
	if errors.Is(openai.NewReasoningValidator().Validate(withTools), openai.ErrReasoningToolsRequireResponses) {
		log.Warn("reasoning switched off, the model takes tools only without it", "model", model)
		t.effort = openai.ReasoningEffortNone
	}
	return t
}

// setTemperature sets the temperature, unless the model does not take it.
func (t *template) setTemperature(value float64) (ok bool) {
	// go-openai omits a zero; the smallest number above it has the same effect.
	t.temperature = max(float32(value), math.SmallestNonzeroFloat32)
	if ok = t.takes(); !ok {
		t.temperature = 0
	}
	return ok
}

// with returns the template with what a request sets in place of the configuration.
func (t template) with(req Request) template {
	if req.MaxOutputTokens > 0 && t.completionTokens {
		t.maxCompletionTokens = req.MaxOutputTokens
	} else if req.MaxOutputTokens > 0 {
		t.maxTokens = req.MaxOutputTokens
	}
	if req.Temperature != nil {
		t.setTemperature(*req.Temperature)
	}
	return t
}

// takes reports whether the model takes the settings, as far as go-openai knows.
func (t template) takes() bool {
	return openai.NewReasoningValidator().Validate(openai.ChatCompletionRequest{
		Model:       t.model,
		Temperature: t.temperature,
		//lint:ignore SA1019 servers other than OpenAI know only max_tokens
		MaxTokens: t.maxTokens,
	}) == nil
}

func isOpenAI(baseURL string) bool {
	u, err := url.Parse(baseURL)
	return err == nil && u.Hostname() == "api.openai.com"
}

// wireRequest is the body of a request. It has go-openai's fields except for messages
// and tools: those of go-openai implement json.Marshaler, whose output encoding/json
// checks again at every level. With a long history, that is most of the CPU of a call.
type wireRequest struct {
	openai.ChatCompletionRequest
	Messages []Message
	Tools    json.RawMessage // nil for none
	options  []byte          // further fields, each with a comma in front of it

	offered  []Tool // tools of the request
	cacheKey string // "" for none
	marked   []int  // indexes of messages that get a cache mark: the server keeps what it has read up to them

	encoded []byte // the result of encode, nil when it must be made again
}

type wireMessage struct {
	Role       string            `json:"role"`
	Content    any               `json:"content,omitempty"` // a string, or with images []openai.ChatMessagePart
	Name       string            `json:"name,omitempty"`
	ToolCalls  []openai.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
}

type wireTool struct {
	Type     openai.ToolType           `json:"type"`
	Function openai.FunctionDefinition `json:"function"`
}

// request converts a call to the API's request.
func (t template) request(req Request) *wireRequest {
	t = t.with(req)
	wire := &wireRequest{
		ChatCompletionRequest: openai.ChatCompletionRequest{
			Model:               t.model,
			Temperature:         t.temperature,
			MaxCompletionTokens: t.maxCompletionTokens,
			//lint:ignore SA1019 servers other than OpenAI know only max_tokens
			MaxTokens:     t.maxTokens,
			Stream:        true,
			StreamOptions: &openai.StreamOptions{IncludeUsage: true},
		},
		Messages: req.Messages,
		offered:  req.Tools,
	}
	switch t.cache {
	case cacheByKey:
		wire.cacheKey = req.CacheKey
	case cacheByMarks:
		wire.marked = marksOf(req.Messages)
	}
	if len(req.Tools) > 0 {
		wire.ReasoningEffort = t.effort
		if wire.Tools = t.encodeTools(req); wire.Tools != nil && req.InWords {
			wire.ToolChoice = "none" // https://platform.openai.com/docs/guides/function-calling#tool-choice
		}
	}
	if req.Options != nil {
		req.Options.apply(wire, t.completionTokens)
	}
	if t.draws {
		wire.options = append(wire.options, pictureModalities...)
	}
	return wire
}

// encodeTools returns the tools of a call as JSON. Tools that a program brings along
// do not take the place of the gateway's own in the cache.
func (t template) encodeTools(req Request) json.RawMessage {
	if req.Options != nil {
		return encodeTools(req.Tools)
	}
	return t.tools.encode(req.Tools)
}

// outline returns the part of the request by which go-openai checks whether the model
// takes it: that there are tools, but not which.
func (w *wireRequest) outline() openai.ChatCompletionRequest {
	outline := w.ChatCompletionRequest
	if len(w.Tools) > 0 {
		outline.Tools = []openai.Tool{{}}
	}
	return outline
}

// encode returns the body of the request. It is made once for all attempts.
func (w *wireRequest) encode() ([]byte, error) {
	if w.encoded != nil {
		return w.encoded, nil
	}
	// The outer fields replace go-openai's of the same key, which would be written
	// even when they are empty.
	fields, err := json.Marshal(struct {
		*openai.ChatCompletionRequest
		Messages any `json:"messages,omitempty"`
		Tools    any `json:"tools,omitempty"`

		CacheKey string `json:"prompt_cache_key,omitempty"` // go-openai has it for the Responses API alone
	}{ChatCompletionRequest: &w.ChatCompletionRequest, CacheKey: w.cacheKey})
	if err != nil {
		return nil, err
	}
	messages, err := encodeMessages(w.Messages, w.marked, w.offered)
	if err != nil {
		return nil, err
	}
	tools := slices.Concat([]byte(`,"tools":`), w.Tools)
	if w.Tools == nil {
		tools = nil
	}
	w.encoded = slices.Concat(fields[:len(fields)-1], w.options, tools, []byte(`,"messages":`), messages, []byte("}"))
	return w.encoded, nil
}

// encodeMessages encodes the messages. Nearly all are plain texts, which it writes
// without reflection. offered are the tools of the request.
func encodeMessages(list []Message, marked []int, offered []Tool) ([]byte, error) {
	size := 2
	for i := range list {
		size += len(list[i].Content) + len(list[i].Note) + len(`{"role":"assistant","content":""},`)
	}
	buf := append(make([]byte, 0, size), '[')
	var pictures []Image // of tool results
	for i := range list {
		if i > 0 {
			buf = append(buf, ',')
		}
		isMarked := slices.Contains(marked, i)
		if m := &list[i]; m.isPlain() && !isMarked {
			buf = append(append(append(buf, `{"role":"`...), m.Role...), `","content":`...)
			buf = append(appendString(buf, m.Text()), '}')
			continue
		}
		m := list[i]
		if m.Role == roleTool {
			pictures, m.Images = append(pictures, m.Images...), nil
		}
		wire := newWireMessage(m, offered)
		if isMarked {
			wire.Content = newMarkedContent(m.Text())
		}
		raw, err := json.Marshal(wire)
		if err != nil {
			return nil, err
		}
		buf = append(buf, raw...)
		if len(pictures) > 0 && (i+1 == len(list) || list[i+1].Role != roleTool) {
			if raw, err = json.Marshal(newWireMessage(Message{Role: "user", Content: picturesOfTools, Images: pictures}, nil)); err != nil {
				return nil, err
			}
			buf, pictures = append(append(buf, ','), raw...), nil
		}
	}
	return append(buf, ']'), nil
}

const roleTool = "tool"

// picturesOfTools stands before the pictures of tool results. They follow the results as a
// message of the user, since tool messages take only texts:
// https://platform.openai.com/docs/api-reference/chat/create
const picturesOfTools = "[the pictures of the tool results above]"

// isPlain reports whether a message has only a role and a text.
func (m *Message) isPlain() bool {
	return len(m.ToolCalls) == 0 && len(m.Images) == 0 && m.Name == "" && m.ToolCallID == "" && (m.Note != "" || strings.TrimSpace(m.Content) != "")
}

// appendString appends a text as a JSON string (RFC 8259, section 7).
func appendString(buf []byte, text string) []byte {
	text = clean(text)
	buf = append(buf, '"')
	written := 0
	for i := range len(text) {
		b := text[i]
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		buf = append(buf, text[written:i]...)
		written = i + 1
		switch b {
		case '\n':
			buf = append(buf, `\n`...)
		case '"', '\\':
			buf = append(buf, '\\', b)
		default:
			buf = fmt.Appendf(buf, `\u%04x`, b)
		}
	}
	return append(append(buf, text[written:]...), '"')
}

func (w *wireRequest) withoutStreamOptions() {
	if w.StreamOptions != nil {
		w.StreamOptions, w.encoded = nil, nil
	}
}

func newWireMessage(m Message, offered []Tool) wireMessage {
	wire := wireMessage{
		Role:       m.Role,
		Name:       writerName(m.Name),
		ToolCallID: wireCallID(m.ToolCallID),
	}
	if m.Role == roleTool {
		wire.Name = toolName(m.Name, offered)
	}
	for _, call := range m.ToolCalls {
		wire.ToolCalls = append(wire.ToolCalls, openai.ToolCall{
			ID:       wireCallID(call.ID),
			Type:     openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: toolName(call.Name, offered), Arguments: wireArguments(clean(call.Arguments))},
		})
	}
	wire.Content = newWireContent(m)
	return wire
}

// newWireContent returns the content of a message, nil for one that needs none.
func newWireContent(m Message) any {
	text := clean(m.Text())
	empty := strings.TrimSpace(text) == ""
	switch {
	case len(m.Images) > 0:
		return newWireParts(text, empty, m.Images)
	case !empty:
		return text
	case len(m.ToolCalls) == 0:
		return emptyText
	}
	return nil
}

// newWireParts returns a text with images as parts: https://platform.openai.com/docs/guides/images-vision
func newWireParts(text string, empty bool, images []Image) []openai.ChatMessagePart {
	var parts []openai.ChatMessagePart
	if !empty {
		parts = append(parts, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: text})
	}
	for _, image := range images {
		data := "data:" + image.MediaType + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
		parts = append(parts, openai.ChatMessagePart{
			Type:     openai.ChatMessagePartTypeImageURL,
			ImageURL: &openai.ChatMessageImageURL{URL: data},
		})
	}
	return parts
}

// toolCache keeps the encoding of the tools that were sent last. They are large, and
// mostly the same for every call.
type toolCache struct{ last atomic.Pointer[encodedTools] }

type encodedTools struct {
	list []Tool
	json json.RawMessage
}

func (c *toolCache) encode(list []Tool) json.RawMessage {
	if last := c.last.Load(); last != nil && len(last.list) == len(list) && &last.list[0] == &list[0] {
		return last.json
	}
	raw := encodeTools(list)
	if raw != nil {
		c.last.Store(&encodedTools{list: list, json: raw})
	}
	return raw
}

// encodeTools returns tools as JSON, nil when a schema is none: the call is then made
// without tools.
func encodeTools(list []Tool) json.RawMessage {
	wire := make([]wireTool, len(list))
	for i, tool := range list {
		wire[i] = newWireTool(tool)
	}
	raw, err := json.Marshal(wire)
	if err != nil {
		return nil
	}
	return raw
}

func newWireTool(t Tool) wireTool {
	parameters := t.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage(noParameters)
	}
	return wireTool{Type: openai.ToolTypeFunction, Function: openai.FunctionDefinition{
		Name: t.Name, Description: clean(t.Description), Parameters: parameters, Strict: t.Strict,
	}}
}

// wireArguments returns the arguments of a call as a JSON object, whatever the model
// wrote. Servers whose chat template parses them would otherwise refuse every later
// call of the conversation.
func wireArguments(args string) string {
	trimmed := strings.TrimSpace(args)
	switch {
	case trimmed == "":
		return "{}"
	case trimmed[0] == '{' && json.Valid([]byte(trimmed)):
		return args
	}
	raw, _ := json.Marshal(map[string]string{"malformed_arguments": args}) // cannot fail: all are strings
	return string(raw)
}

// clean returns text that every server takes: valid UTF-8 without NUL.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 { // the common case
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
