package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"parley/conversation/metadata"
	"parley/llm"
)

// responseRequest is the body of a request for a response, with the parameters that are
// taken: https://platform.openai.com/docs/api-reference/responses/create
type responseRequest struct {
	Model        string          `json:"model"` // a name that can't be chosen is ignored
	Input        json.RawMessage `json:"input"` // a text, or a list of items
	Instructions string          `json:"instructions"`
	Stream       bool            `json:"stream"`

	User         string           `json:"user"`
	Conversation conversationName `json:"conversation"`
	Previous     string           `json:"previous_response_id"`
	Store        *bool            `json:"store"`
	Truncation   string           `json:"truncation"`
	Metadata     json.RawMessage  `json:"metadata"`

	Tools             []json.RawMessage `json:"tools"`
	ToolChoice        json.RawMessage   `json:"tool_choice"`
	ParallelToolCalls *bool             `json:"parallel_tool_calls"`
	MaxOutputTokens   *int              `json:"max_output_tokens"`
	Temperature       *float64          `json:"temperature"`
	TopP              *float64          `json:"top_p"`
	Text              responseText      `json:"text"`
	Reasoning         responseReasoning `json:"reasoning"`

	responseOnly
	free
}

// conversationName is the name of a session, as a text or as {"id": …}. null names none.
type conversationName string

// UnmarshalJSON refuses a name that is empty: the request would be answered without a session.
func (n *conversationName) UnmarshalJSON(raw []byte) error {
	param, name := "conversation", (*string)(n)
	var err error
	if bytes.HasPrefix(raw, []byte("{")) {
		var named struct {
			ID string `json:"id"`
		}
		err = json.Unmarshal(raw, &named)
		param, *name = "conversation.id", named.ID
	} else {
		err = json.Unmarshal(raw, name)
	}
	if err == nil && isGiven(raw) && *name == "" {
		return wrongParameter(param, "empty_string", fmt.Sprintf("Invalid '%s': empty string. Expected the name of a session, or no conversation.", param))
	}
	return err
}

type responseText struct {
	Format    json.RawMessage `json:"format"`
	Verbosity string          `json:"verbosity"`
}

type responseReasoning struct {
	Effort          string `json:"effort"`
	Summary         string `json:"summary"`
	GenerateSummary string `json:"generate_summary"`
}

// responseOnly are the parameters of which just one value is accepted: OpenAI's default.
type responseOnly struct {
	Background    bool            `json:"background"`
	MaxToolCalls  *int            `json:"max_tool_calls"`
	Prompt        json.RawMessage `json:"prompt"`
	TopLogprobs   int             `json:"top_logprobs"`
	Include       []string        `json:"include"`
	StreamOptions struct {
		Obfuscation bool `json:"include_obfuscation"`
	} `json:"stream_options"`
}

// encryptedReasoning asks for the reasoning items of an answer in a form that can be
// sent back. Answers have no such items, so that nothing is left out.
const encryptedReasoning = "reasoning.encrypted_content"

// readResponseRequest reads the body of a request. It refuses values that the gateway
// can't honour, by the parameter's name.
func readResponseRequest(r *http.Request) (responseRequest, error) {
	request, err := readParameters[responseRequest](r)
	if err != nil {
		return request, err
	}
	return request, request.check()
}

func (request responseRequest) check() error {
	refuse := func(name, allowed string) error {
		return wrongParameter(name, "unsupported_parameter", fmt.Sprintf("Parameter '%s' is not supported here. Leave it out, or give it the value %s.", name, allowed))
	}
	other := func(name string) bool { return name != encryptedReasoning }
	switch {
	case request.Background:
		return refuse("background", "false")
	case request.MaxToolCalls != nil:
		return refuse("max_tool_calls", "null")
	case isGiven(request.Prompt):
		return refuse("prompt", "null")
	case request.TopLogprobs != 0:
		return refuse("top_logprobs", "0")
	case slices.ContainsFunc(request.Include, other):
		return refuse("include", `["`+encryptedReasoning+`"]`)
	case request.StreamOptions.Obfuscation:
		return refuse("stream_options.include_obfuscation", "false")
	case request.Reasoning.Summary != "":
		return refuse("reasoning.summary", "null")
	case request.Reasoning.GenerateSummary != "":
		return refuse("reasoning.generate_summary", "null")
	case request.Text.Verbosity != "" && request.Text.Verbosity != defaultVerbosity:
		return refuse("text.verbosity", defaultVerbosity)
	}
	return nil
}

const defaultVerbosity = "medium"

// checkFor refuses what a session, or a request without one, can't honour.
func (request responseRequest) checkFor(session bool) error {
	stores, truncation := request.Store == nil || *request.Store, cmp.Or(request.Truncation, truncationOf(session))
	switch {
	case session && !stores:
		return wrongParameter("store", "unsupported_parameter", "A session stores what is said in it. Leave 'store' out, or name no session.")
	case !session && request.Store != nil && stores:
		return wrongParameter("store", "unsupported_parameter",
			"Without a session nothing is stored. Leave 'store' out, or name a session in 'conversation', 'user' or the header X-Session-Key.")
	case truncation != truncationOf(session):
		return wrongParameter("truncation", "unsupported_parameter",
			fmt.Sprintf("Parameter 'truncation' can only have the value %s here: a session leaves out what does not fit, and a request without one is sent as it is.", truncationOf(session)))
	}
	return nil
}

// truncationOf returns what happens to an input that is too long.
func truncationOf(session bool) string {
	if session {
		return "auto"
	}
	return "disabled"
}

// options returns the parameters of the model's calls.
func (request responseRequest) options() (o llm.Options, err error) {
	o = llm.Options{
		Temperature: request.Temperature, TopP: request.TopP, ParallelToolCalls: request.ParallelToolCalls,
		ReasoningEffort: request.Reasoning.Effort,
	}
	if o.MaxTokens, err = tokenLimit("max_output_tokens", request.MaxOutputTokens); err != nil {
		return o, err
	}
	if o.ResponseFormat, err = responseFormat(request.Text.Format); err == nil {
		o.ToolChoice, err = toolChoice(request.ToolChoice)
	}
	return o, err
}

// responseFormat returns a text.format as chat completions have it.
func responseFormat(raw json.RawMessage) (json.RawMessage, error) {
	const param, allowed = "text.format", `Allowed: {"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "name": …, "schema": …}.`
	if !isGiven(raw) {
		return nil, nil
	}
	type jsonSchema struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict,omitempty"`
	}
	var given struct {
		Type string `json:"type"`
		jsonSchema
	}
	if err := strictly(raw, &given); err != nil {
		return nil, wrongParameter(param, "invalid_value", param+": "+err.Error()+". "+allowed)
	}
	switch given.Type {
	case "text":
		return nil, nil
	case "json_object":
		return json.RawMessage(`{"type":"json_object"}`), nil
	case "json_schema":
		if given.Name != "" && isGiven(given.Schema) {
			return json.Marshal(map[string]any{"type": given.Type, "json_schema": given.jsonSchema})
		}
	}
	return nil, wrongParameter(param, "invalid_value", param+" is not known. "+allowed)
}

// toolChoice returns a tool_choice as chat completions have it.
func toolChoice(raw json.RawMessage) (json.RawMessage, error) {
	switch string(raw) {
	case "", "null":
		return nil, nil
	case `"auto"`, `"none"`, `"required"`:
		return raw, nil
	}
	var given struct{ Type, Name string }
	if err := strictly(raw, &given); err != nil || given.Type != "function" || given.Name == "" {
		return nil, wrongParameter("tool_choice", "invalid_value",
			`tool_choice is not known. Allowed: "auto", "none", "required", {"type": "function", "name": …}.`)
	}
	return json.Marshal(map[string]any{"type": given.Type, "function": map[string]string{"name": given.Name}})
}

// tools returns the client's tools.
func (request responseRequest) tools() (list []llm.Tool, err error) {
	for i, raw := range request.Tools {
		var t struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Strict      bool            `json:"strict"`
		}
		if err := json.Unmarshal(raw, &t); err != nil || t.Type != "function" || t.Name == "" {
			return nil, noFunction(i, `{"type": "function", "name": …}`)
		}
		if err := strictly(raw, &t); err != nil {
			return nil, wrongParameter(fmt.Sprintf("tools[%d]", i), "unknown_parameter", fmt.Sprintf("tools[%d]: %s. Leave it out.", i, err))
		}
		if !isGiven(t.Parameters) {
			t.Parameters = nil
		}
		list = append(list, llm.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict})
	}
	return list, nil
}

// strictly reads JSON that has no other fields than value. The error reads as a part of a
// sentence.
func strictly(raw json.RawMessage, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(value)
	if err != nil {
		err = fmt.Errorf("%s", shorten(strings.TrimPrefix(err.Error(), "json: ")))
	}
	return err
}

// responseCall returns the call of the model that a request without a session asks for.
func (c *Channel) responseCall(request responseRequest) (call llm.Request, err error) {
	said, err := request.messages()
	if err != nil {
		return call, err
	}
	for _, m := range said {
		shown, err := c.toModel(m.requestMessage, m.said)
		if err != nil {
			return call, inParameter(m.param, err)
		}
		call.Messages = append(call.Messages, shown)
	}
	if call.Tools, err = request.tools(); err != nil {
		return call, err
	}
	options, err := request.options()
	call.Options = &options
	return call, err
}

// responseQuestion returns the question to the session that the request names: the user's messages at
// the end of the input.
func (c *Channel) responseQuestion(request responseRequest, names []string, idempotencyKey string) (q question, err error) {
	key, err := completionSession(names...)
	if err != nil {
		return q, err
	}
	said, err := request.messages()
	if err != nil {
		return q, err
	}
	news, instructions := newOf(said)
	if news.text == "" && len(news.files) == 0 {
		return q, wrongParameter("input", "invalid_value", "input ends without a message of the user. In a session only what is new counts, which is what the user says at the end of the input.")
	}
	if q, err = newQuestion(key, idempotencyKey, news.text, news.files); err != nil {
		return q, inParameter("input", err)
	}
	options, err := request.options()
	if err != nil {
		return q, err
	}
	if q.options, err = optionsInSession("instructions", options, len(request.Tools) > 0, instructions); err != nil {
		return q, err
	}
	if isGiven(request.Metadata) {
		q.options.Metadata = metadata.Object(request.Metadata)
	}
	return q, nil
}

// newOf returns what the user says at the end of an input, and its instructions.
func newOf(said []inputMessage) (news content, instructions []string) {
	for _, m := range said {
		switch {
		case isSystem(m.Role):
			instructions = append(instructions, m.said.text)
		case m.Role != "user":
			news = content{}
		default:
			news.files = append(news.files, m.said.files...)
			news.text = strings.TrimPrefix(news.text+"\n\n"+m.said.text, "\n\n")
		}
	}
	return news, instructions
}
