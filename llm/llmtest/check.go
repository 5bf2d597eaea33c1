package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"parley/llm"
)

// maxID is the longest id of a tool call that OpenAI takes.
const maxID = 40

// refusal is an error answer in the words of OpenAI's API.
type refusal struct {
	status  int
	message string
	kind    string // the API's "type"; invalid_request_error when empty
	param   string
	code    string
}

func refuse(param, code, format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...), param: param, code: code}
}

func (r *refusal) write(w http.ResponseWriter) {
	kind := r.kind
	if kind == "" {
		kind = "invalid_request_error"
	}
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	body, _ := json.Marshal(map[string]any{"error": map[string]any{ // of strings alone: cannot fail
		"message": r.message, "type": kind, "param": orNull(r.param), "code": orNull(r.code),
	}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_, _ = w.Write(body)
}

func (s *settings) checkKey(r *http.Request) *refusal {
	if s.key == "" || r.Header.Get("Authorization") == "Bearer "+s.key {
		return nil
	}
	return &refusal{status: http.StatusUnauthorized, code: "invalid_api_key",
		message: "Incorrect API key provided: " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + "."}
}

// check reads a request, or says why it is refused.
func (s *settings) check(r *http.Request, body []byte, counter *llm.Counter) (*request, *refusal) {
	if refused := s.checkKey(r); refused != nil {
		return nil, refused
	}
	req, refused := decode(body)
	if refused != nil {
		return nil, refused
	}
	for _, check := range []func(*request) *refusal{checkParameters, checkMessages, checkCache, checkToolOrder} {
		if refused := check(req); refused != nil {
			return nil, refused
		}
	}
	if s.noStreamOpts && req.StreamOptions != nil {
		return nil, refuse("stream_options", "unknown_parameter", "Unknown parameter: 'stream_options'.")
	}
	return req, s.checkWindow(req, counter)
}

func decode(body []byte) (*request, *refusal) {
	if !utf8.Valid(body) {
		return nil, refuse("", "", "We could not parse the JSON body of your request: it is not valid UTF-8.")
	}
	if duplicate := duplicateKey(body); duplicate != "" {
		return nil, refuse(duplicate, "duplicate_parameter", "Duplicate parameter: '%s' is given more than once.", duplicate)
	}
	var req request
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&req)
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil:
		return &req, nil
	case errors.As(err, &mistyped):
		return nil, refuse(mistyped.Field, "invalid_type",
			"Invalid type for '%s': expected %s, but got %s instead.", mistyped.Field, mistyped.Type, mistyped.Value)
	case strings.Contains(err.Error(), "unknown field"):
		field := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
		return nil, refuse(field, "unknown_parameter", "Unknown parameter: '%s'.", field)
	}
	return nil, refuse("", "", "We could not parse the JSON body of your request. "+
		"(HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)")
}

// duplicateKey returns the place of the first key that an object of the body
// holds twice, at whatever level, as a JSON pointer without its first slash; ""
// when there is none. Strict parsers refuse such a body, others keep the first
// value, and encoding/json keeps the last.
func duplicateKey(body []byte) string {
	_, err := jsontext.NewDecoder(bytes.NewReader(body)).ReadValue()
	var syntactic *jsontext.SyntacticError
	if errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntactic) {
		return strings.TrimPrefix(string(syntactic.JSONPointer), "/")
	}
	return "" // other errors are for the reader of the body to report
}

func checkParameters(r *request) *refusal {
	switch {
	case r.Model == "":
		return refuse("", "", "you must provide a model parameter")
	case len(r.Messages) == 0:
		return refuse("messages", "empty_array",
			"Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	case r.StreamOptions != nil && !r.Stream:
		return refuse("stream_options", "", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 2):
		return refuse("temperature", "", "Invalid 'temperature': expected a value between 0 and 2.")
	case r.MaxTokens < 0 || r.MaxCompletionTokens < 0:
		return refuse("max_tokens", "integer_below_min_value", "Invalid 'max_tokens': integer below minimum value.")
	}
	if refused := checkOptions(r); refused != nil {
		return refused
	}
	for i, t := range r.Tools {
		if refused := checkTool(fmt.Sprintf("tools[%d]", i), t); refused != nil {
			return refused
		}
	}
	return nil
}

// checkOptions checks the parameters that few calls have.
func checkOptions(r *request) *refusal {
	format := r.ResponseFormat
	switch stop := r.Stop.(type) {
	case nil, string:
	case []any:
		if len(stop) > 4 {
			return refuse("stop", "array_above_max_length", "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length %d instead.", len(stop))
		}
	default:
		return refuse("stop", "invalid_type", "Invalid type for 'stop': expected one of a string or array of strings.")
	}
	switch {
	case r.TopP != nil && (*r.TopP < 0 || *r.TopP > 1):
		return refuse("top_p", "", "Invalid 'top_p': expected a value between 0 and 1.")
	case r.ToolChoice != nil && len(r.Tools) == 0:
		return refuse("tool_choice", "", "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
	case r.ParallelToolCalls != nil && len(r.Tools) == 0:
		return refuse("parallel_tool_calls", "", "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.")
	case format == nil:
	case !slices.Contains([]string{"text", "json_object", "json_schema"}, format.Type):
		return refuse("response_format.type", "invalid_value", "Invalid value: '%s'. Supported values are: 'json_object', 'json_schema', and 'text'.", format.Type)
	case format.Type == "json_schema" && len(format.JSONSchema) == 0:
		return refuse("response_format.json_schema", "missing_required_parameter", "Missing required parameter: 'response_format.json_schema'.")
	}
	return nil
}

func checkTool(at string, t tool) *refusal {
	var schema struct {
		Type       string         `json:"type"`
		Properties map[string]any `json:"properties"`
		Required   []string       `json:"required"`

		OneOf, AnyOf, AllOf, Not, Enum any
	}
	switch {
	case t.Type != "function":
		return refuse(at+".type", "invalid_value", "Invalid value: '%s'. Supported values are: 'function'.", t.Type)
	case !isName(t.Function.Name):
		return badName(at+".function.name", t.Function.Name)
	case json.Unmarshal(t.Function.Parameters, &schema) != nil || schema.Type != "object":
		return refuse(at+".function.parameters", "invalid_function_parameters",
			"Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"'.", t.Function.Name)
	case schema.OneOf != nil || schema.AnyOf != nil || schema.AllOf != nil || schema.Not != nil || schema.Enum != nil:
		return refuse(at+".function.parameters", "invalid_function_parameters",
			"Invalid schema for function '%s': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.", t.Function.Name)
	}
	return nil
}

func isName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return name != "" && len(name) <= 64 && strings.Trim(name, letters) == ""
}

func badName(at, name string) *refusal {
	return refuse(at, "invalid_value",
		"Invalid '%s': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$', but got '%s'.", at, name)
}

// maxMarks is the number of parts that Anthropic allows a call to mark:
// https://docs.claude.com/en/docs/build-with-claude/prompt-caching
const maxMarks = 4

// checkCache checks what a call has about caches.
func checkCache(r *request) *refusal {
	marks := 0
	for i := range r.Messages {
		marks += r.Messages[i].Content.marks
	}
	switch {
	case marks > maxMarks:
		return refuse("messages", "", "A maximum of %d blocks with cache_control may be provided. Found %d.", maxMarks, marks)
	case len(r.PromptCacheKey) > 64:
		return refuse("prompt_cache_key", "string_above_max_length",
			"Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length %d instead.", len(r.PromptCacheKey))
	}
	return nil
}

func checkMessages(r *request) *refusal {
	for i := range r.Messages {
		m, at := &r.Messages[i], "messages["+strconv.Itoa(i)+"]"
		if refused := checkMessage(at, m); refused != nil {
			return refused
		}
		for n, call := range m.ToolCalls {
			if refused := checkCall(fmt.Sprintf("%s.tool_calls[%d]", at, n), call); refused != nil {
				return refused
			}
		}
	}
	return nil
}

func checkMessage(at string, m *message) *refusal {
	noContent := func() *refusal {
		return refuse(at+".content", "", "Invalid value for 'content': expected a string, got null.")
	}
	switch m.Role {
	case "system", "developer", "user":
		if !m.Content.given {
			return noContent()
		}
	case "assistant":
		if !m.Content.given && len(m.ToolCalls) == 0 {
			return noContent()
		}
	case "tool":
		switch {
		case m.ToolCallID == nil:
			return refuse(at+".tool_call_id", "missing_required_parameter", "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.")
		case *m.ToolCallID == "":
			return emptyString(at + ".tool_call_id")
		case !m.Content.given:
			return noContent()
		}
	default:
		return refuse(at+".role", "invalid_value",
			"Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", m.Role)
	}
	if m.Role != "assistant" && len(m.ToolCalls) > 0 {
		return refuse(at+".tool_calls", "", "Invalid parameter: only messages with role 'assistant' may have 'tool_calls'.")
	}
	if m.Content.wrong != "" {
		return refuse(at+".content", "invalid_value", "%s", m.Content.wrong)
	}
	if m.Role != "user" && len(m.Content.images) > 0 {
		return refuse(at+".content", "invalid_value", "Invalid '%s.content': image URLs are only allowed for messages with role 'user'.", at)
	}
	if strings.ContainsRune(m.Content.text, 0) {
		return refuse(at+".content", "", "Invalid '%s.content': the string contains a NUL character.", at)
	}
	return nil
}

func checkCall(at string, call toolCall) *refusal {
	switch {
	case call.ID == "":
		return emptyString(at + ".id")
	case len(call.ID) > maxID:
		return refuse(at+".id", "string_above_max_length",
			"Invalid '%s.id': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", at, maxID, len(call.ID))
	case call.Type != "function":
		return refuse(at+".type", "invalid_value", "Invalid value: '%s'. Supported values are: 'function'.", call.Type)
	case !isName(call.Function.Name):
		return badName(at+".function.name", call.Function.Name)
	case call.Function.Arguments == nil:
		return refuse(at+".function.arguments", "missing_required_parameter", "Missing required parameter: '%s.function.arguments'.", at)
	case strings.ContainsRune(*call.Function.Arguments, 0):
		return refuse(at+".function.arguments", "", "Invalid '%s.function.arguments': the string contains a NUL character.", at)
	}
	return nil
}

func emptyString(at string) *refusal {
	return refuse(at, "empty_string",
		"Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", at)
}

// checkToolOrder checks that every call is answered once, by the messages that directly
// follow it, and nothing is answered that was not asked.
func checkToolOrder(r *request) *refusal {
	var open []string // calls that wait for their result
	for i, m := range r.Messages {
		if m.Role == "tool" {
			at := slices.Index(open, *m.ToolCallID)
			if at < 0 {
				return refuse(fmt.Sprintf("messages.[%d].role", i), "",
					"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
			}
			open = slices.Delete(open, at, at+1)
			continue
		}
		if len(open) > 0 {
			return unanswered(i, open)
		}
		for _, call := range m.ToolCalls {
			if slices.Contains(open, call.ID) {
				return refuse(fmt.Sprintf("messages.[%d].tool_calls", i), "", "Invalid parameter: duplicate tool_call id '%s'.", call.ID)
			}
			open = append(open, call.ID)
		}
	}
	if len(open) > 0 {
		return unanswered(len(r.Messages), open)
	}
	return nil
}

func unanswered(at int, ids []string) *refusal {
	return refuse(fmt.Sprintf("messages.[%d].role", at), "",
		"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
			"The following tool_call_ids did not have response messages: %s", strings.Join(ids, ", "))
}

func (s *settings) checkWindow(r *request, counter *llm.Counter) *refusal {
	if s.contextWindow == 0 {
		return nil
	}
	call := r.call(nil)
	tokens := 3 + counter.Tools(call.Tools) // 3 begin the answer
	for _, m := range call.Messages {
		tokens += counter.Message(m)
	}
	if tokens <= s.contextWindow {
		return nil
	}
	return refuse("messages", "context_length_exceeded",
		"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.",
		s.contextWindow, tokens)
}
