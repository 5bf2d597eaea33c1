package llm

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/url"
	"strings"
	"unicode/utf8"

	openai "github.com/sashabaranov/go-openai"
)

// emptyText stands for a message without text: the API refuses one that has
// no content, and some servers one that is only white space.
const emptyText = "(empty)"

// noParameters is the schema of a tool that takes none.
const noParameters = `{"type":"object","properties":{}}`

// template is what every request to one model has in common.
type template struct {
	model               string
	temperature         float32
	maxTokens           int
	maxCompletionTokens int
	effort              string // the reasoning effort of calls that offer tools
}

// newTemplate fits the settings to what the model takes, as far as it is
// known, and warns of what it leaves out.
func newTemplate(model string, cfg Config, log *slog.Logger) template {
	t := template{model: model}
	if cfg.Temperature != nil {
		// go-openai leaves out a zero; the smallest number above it means the same.
		t.temperature = max(float32(*cfg.Temperature), math.SmallestNonzeroFloat32)
		if !t.takes() {
			log.Warn("the model takes no temperature, so none is sent", "model", model)
			t.temperature = 0
		}
	}
	// OpenAI's newer models know only max_completion_tokens, most other
	// servers only max_tokens.
	if t.maxTokens = cfg.MaxOutputTokens; isOpenAI(cfg.BaseURL) || !t.takes() {
		t.maxTokens, t.maxCompletionTokens = 0, cfg.MaxOutputTokens
	}
	withTools := openai.ChatCompletionRequest{Model: model, Tools: []openai.Tool{{}}}
	if errors.Is(openai.NewReasoningValidator().Validate(withTools), openai.ErrReasoningToolsRequireResponses) {
		log.Warn("the model takes tools only without reasoning, so none is asked for", "model", model)
		t.effort = openai.ReasoningEffortNone
	}
	return t
}

// takes says whether the model takes the settings, as far as go-openai knows.
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

// wireRequest is a call in the words of the API. It has go-openai's fields but
// for messages and tools: go-openai's own encode themselves, and
// encoding/json then reads each of them over again, at every level, which for
// a long history is most of what a call costs.
type wireRequest struct {
	openai.ChatCompletionRequest
	Messages []wireMessage `json:"messages"`
	Tools    []wireTool    `json:"tools,omitempty"`

	encoded []byte // by encode, nil when it has to be done again
}

type wireMessage struct {
	Role       string            `json:"role"`
	Content    string            `json:"content,omitempty"`
	Name       string            `json:"name,omitempty"`
	ToolCalls  []openai.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
}

type wireTool struct {
	Type     openai.ToolType           `json:"type"`
	Function openai.FunctionDefinition `json:"function"`
}

// request puts a call into the words of the API.
func (t template) request(req Request) *wireRequest {
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
		Messages: make([]wireMessage, len(req.Messages)),
	}
	for i, m := range req.Messages {
		wire.Messages[i] = newWireMessage(m)
	}
	if len(req.Tools) == 0 {
		return wire
	}
	wire.ReasoningEffort = t.effort
	wire.Tools = make([]wireTool, len(req.Tools))
	for i, tool := range req.Tools {
		wire.Tools[i] = newWireTool(tool)
	}
	return wire
}

// outline is the request as far as go-openai needs it to judge whether the
// model takes it: that there are tools, but not which.
func (w *wireRequest) outline() openai.ChatCompletionRequest {
	outline := w.ChatCompletionRequest
	if len(w.Tools) > 0 {
		outline.Tools = []openai.Tool{{}}
	}
	return outline
}

// encode is the body of the request. It is made once for all tries.
func (w *wireRequest) encode() ([]byte, error) {
	if w.encoded != nil {
		return w.encoded, nil
	}
	var err error
	w.encoded, err = json.Marshal(w)
	return w.encoded, err
}

func (w *wireRequest) withoutStreamOptions() {
	if w.StreamOptions != nil {
		w.StreamOptions, w.encoded = nil, nil
	}
}

func newWireMessage(m Message) wireMessage {
	wire := wireMessage{
		Role:       m.Role,
		Content:    clean(m.Content),
		Name:       m.Name,
		ToolCallID: m.ToolCallID,
	}
	for _, call := range m.ToolCalls {
		wire.ToolCalls = append(wire.ToolCalls, openai.ToolCall{
			ID:       call.ID,
			Type:     openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: clean(call.Name), Arguments: wireArguments(clean(call.Arguments))},
		})
	}
	if strings.TrimSpace(wire.Content) == "" {
		wire.Content = ""
		if len(wire.ToolCalls) == 0 {
			wire.Content = emptyText
		}
	}
	return wire
}

func newWireTool(t Tool) wireTool {
	parameters := t.Parameters
	if len(parameters) == 0 {
		parameters = json.RawMessage(noParameters)
	}
	return wireTool{Type: openai.ToolTypeFunction, Function: openai.FunctionDefinition{
		Name: t.Name, Description: clean(t.Description), Parameters: parameters,
	}}
}

// wireArguments makes a JSON object of whatever a model once wrote as
// arguments: servers whose chat template parses them would otherwise refuse
// the conversation for ever.
func wireArguments(args string) string {
	trimmed := strings.TrimSpace(args)
	switch {
	case trimmed == "":
		return "{}"
	case trimmed[0] == '{' && json.Valid([]byte(trimmed)):
		return args
	}
	raw, _ := json.Marshal(map[string]string{"malformed_arguments": args}) // of strings alone: cannot fail
	return string(raw)
}

// clean makes text that every server takes: valid UTF-8 without NUL.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 { // as nearly all is
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
