package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/media"
	"parley/httpserver"
	"parley/llm"
)

// defaultSession is the session of those who name none, where completions are not
// stateless.
const defaultSession = ChannelName + ":default"

// completionRequest is the body of a chat completion request, with the parameters
// that are taken.
type completionRequest struct {
	Model    string           `json:"model"` // a name that can't be chosen is ignored
	User     string           `json:"user"`
	Stream   bool             `json:"stream"`
	Messages []requestMessage `json:"messages"`
	Tools    []requestTool    `json:"tools"`

	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	llm.Options

	only // parameters of which just one value is accepted
	free // parameters without effect on the answer
}

// only are the parameters of which just one value is accepted: OpenAI's default.
type only struct {
	N           *int               `json:"n"`
	Logprobs    bool               `json:"logprobs"`
	TopLogprobs int                `json:"top_logprobs"`
	LogitBias   map[string]float64 `json:"logit_bias"`
	Modalities  []string           `json:"modalities"`
	Audio       json.RawMessage    `json:"audio"`
	Functions   json.RawMessage    `json:"functions"`
}

// check refuses values that the gateway can't honour, by the parameter's name.
func (o only) check() error {
	const one = "Parameter '%s' is not supported here. Leave it out, or give it the value %s."
	refuse := func(name, allowed string) error {
		return wrongParameter(name, "unsupported_parameter", fmt.Sprintf(one, name, allowed))
	}
	switch {
	case o.N != nil && *o.N < 1:
		return belowMinimum("n", *o.N)
	case o.N != nil && *o.N > 1:
		return refuse("n", "1")
	case o.Logprobs:
		return refuse("logprobs", "false")
	case o.TopLogprobs != 0:
		return refuse("top_logprobs", "0")
	case len(o.LogitBias) > 0:
		return refuse("logit_bias", "{}")
	case len(o.Modalities) > 0 && !slices.Equal(o.Modalities, []string{"text"}):
		return refuse("modalities", `["text"]`)
	case isGiven(o.Audio):
		return refuse("audio", "null")
	case isGiven(o.Functions):
		return wrongParameter("functions", "unsupported_parameter", "Parameter 'functions' is not supported here. Use 'tools' instead.")
	}
	return nil
}

// free are parameters that do not affect the answer: they control what the provider stores, bills
// and caches. They are accepted and not passed on.
type free struct {
	Store                any `json:"store"`
	Metadata             any `json:"metadata"`
	ServiceTier          any `json:"service_tier"`
	SafetyIdentifier     any `json:"safety_identifier"`
	PromptCacheKey       any `json:"prompt_cache_key"`
	PromptCacheRetention any `json:"prompt_cache_retention"`
}

// requestMessage is a message of a request. Its content is read where it counts: of
// a request with a session, only that of the newest message does.
type requestMessage struct {
	Role       string          `json:"role"`
	Name       string          `json:"name"`
	Content    json.RawMessage `json:"content"`
	Refusal    string          `json:"refusal"` // of an assistant message, in place of the content
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []chatCall      `json:"tool_calls"`

	FunctionCall json.RawMessage `json:"function_call"` // not taken, as Audio
	Audio        json.RawMessage `json:"audio"`
}

// chatCall is a call of a tool that the client has brought along.
type chatCall struct {
	Index    *int   `json:"index,omitempty"` // in a stream
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type requestTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	} `json:"function"`
}

// content is a text, or a list of parts.
type content struct {
	text  string
	files []file
}

type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
	} `json:"file"`
}

// parseContent reads the content of a message of a chat completion.
func parseContent(raw json.RawMessage) (content, error) { return readContent[part](raw) }

// contentPart is a part of a content, in the shape of one of OpenAI's protocols.
type contentPart interface {
	// read returns the text of the part, or its file.
	read() (text string, f *file, err error)
}

// readContent reads a content that is a text or a list of parts.
func readContent[P contentPart](raw json.RawMessage) (c content, err error) {
	var parts []P
	switch {
	case !isGiven(raw): // no text
		return c, nil
	case raw[0] == '[':
		err = json.Unmarshal(raw, &parts)
	default:
		err = json.Unmarshal(raw, &c.text)
	}
	if err != nil {
		return c, unreadable(err)
	}
	var texts []string
	for _, p := range parts {
		text, f, err := p.read()
		if err != nil {
			return c, err
		}
		if f != nil {
			c.files = append(c.files, *f)
			continue
		}
		texts = append(texts, text)
	}
	if parts != nil {
		c.text = strings.Join(texts, "\n\n")
	}
	return c, nil
}

func (p part) read() (text string, f *file, err error) {
	switch p.Type {
	case "text":
		return p.Text, nil, nil
	case "refusal":
		return p.Refusal, nil, nil
	case "image_url":
		f, err = pictureAt("image_url", p.ImageURL.URL)
	case "file":
		f, err = fileAt(p.File.Data, p.File.Name)
	default:
		err = problem(http.StatusBadRequest, "A part of a message has the type %q. Allowed: text, image_url, file.", shorten(p.Type))
	}
	return "", f, err
}

// fileAt returns the file of a data: URL.
func fileAt(url, name string) (*file, error) {
	f, err := fromDataURL(url, name)
	return &f, err
}

// pictureAt returns the picture of a data: URL, which a field of a request holds.
func pictureAt(field, url string) (*file, error) {
	f, err := fileAt(url, "")
	if err == nil && !media.IsImageType(hosted.MediaType("", f.Data)) {
		err = problem(http.StatusUnprocessableEntity, "An %s has data that is no picture. Allowed: PNG, JPEG, WebP and GIF.", field)
	}
	return f, err
}

// isGiven reports whether a field has a value other than null.
func isGiven(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

func unreadable(err error) error {
	return problem(http.StatusBadRequest, "The request can't be read: %s.", shorten(err.Error()))
}

// readCompletion reads the body of a request for a chat completion.
func readCompletion(r *http.Request) (completionRequest, error) {
	request, err := readParameters[completionRequest](r)
	if err != nil {
		return request, err
	}
	older, err := tokenLimit("max_tokens", request.MaxTokens)
	if err != nil {
		return request, err
	}
	newer, err := tokenLimit("max_completion_tokens", request.MaxCompletionTokens)
	if err != nil {
		return request, err
	}
	request.Options.MaxTokens = cmp.Or(newer, older)
	return request, request.only.check()
}

// tokenLimit returns the most tokens of an answer, as a parameter says it; 0 = as configured. Clients of local servers write
// -1 for that.
func tokenLimit(param string, given *int) (int, error) {
	if given == nil || *given == -1 {
		return 0, nil
	}
	if *given < 1 {
		return 0, belowMinimum(param, *given)
	}
	return *given, nil
}

// belowMinimum refuses a number below 1, in OpenAI's words.
func belowMinimum(param string, given int) error {
	return wrongParameter(param, "integer_below_min_value",
		fmt.Sprintf("Invalid '%s': integer below minimum value. Expected a value >= 1, but got %d instead.", param, given))
}

// readParameters reads the body of a request. It refuses parameters that its type does
// not have, since an ignored one would change the answer without a word.
func readParameters[T any](r *http.Request) (request T, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		status, detail := httpserver.BodyError(err)
		return request, problem(status, "%s", detail)
	}
	body = bytes.ToValidUTF8(body, []byte("\uFFFD")) // as json reads texts: parts of it are sent on as they are
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return request, unreadable(err)
	}
	known := parametersOf(reflect.TypeFor[T]())
	for name, value := range given {
		if isGiven(value) && !slices.Contains(known, name) {
			return request, wrongParameter(name, "unknown_parameter", fmt.Sprintf("Unknown parameter: '%s'. Leave it out.", shorten(name)))
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		var mistyped *json.UnmarshalTypeError
		var wrong *openAIError
		if errors.As(err, &wrong) {
			return request, wrong
		}
		if errors.As(err, &mistyped) && mistyped.Field != "" {
			name := parameterName(mistyped.Field)
			return request, wrongParameter(name, "invalid_type", fmt.Sprintf("Invalid type for '%s': found %s.", name, mistyped.Value))
		}
		return request, unreadable(err)
	}
	return request, nil
}

// parametersOf returns the names of the parameters that a type of requests has.
func parametersOf(request reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(request) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// parameterName returns the path of a field as a client knows it, without the parts
// that the parameters are grouped in here.
func parameterName(path string) string {
	for _, group := range []string{"Options.", "only.", "free.", "responseOnly."} {
		path = strings.TrimPrefix(path, group)
	}
	return path
}

// namesSession reports whether the request belongs to a session.
func (request completionRequest) namesSession(header http.Header) bool {
	return header.Get("X-Session-Key") != "" || request.User != ""
}

// question returns the newest message of the user, for the session that the
// request names.
func (request completionRequest) question(header http.Header) (question, error) {
	key, err := completionSession(header.Get("X-Session-Key"), request.User)
	if err != nil {
		return question{}, err
	}
	for _, m := range slices.Backward(request.Messages) {
		if m.Role == "user" {
			said, err := parseContent(m.Content)
			if err != nil {
				return question{}, err
			}
			q, err := newQuestion(key, header.Get("Idempotency-Key"), said.text, said.files)
			if err == nil {
				q.options, err = request.runOptions()
			}
			return q, err
		}
	}
	return question{}, problem(http.StatusBadRequest, "messages has none with the role user.")
}

// maxInstructions is how many bytes the instructions of a request with a session may
// have: they are stored with the message.
const maxInstructions = 16 << 10

// runOptions returns what the request asks of the run that answers it: its parameters,
// and its system messages as instructions.
func (request completionRequest) runOptions() (o conversation.RunOptions, err error) {
	var instructions []string
	for i, m := range request.Messages {
		if !isSystem(m.Role) {
			continue
		}
		said, err := parseContent(m.Content)
		if err != nil {
			return o, inParameter(fmt.Sprintf("messages[%d]", i), err)
		}
		instructions = append(instructions, said.text)
	}
	return optionsInSession("messages", request.Options, len(request.Tools) > 0, instructions)
}

// isSystem reports whether messages of a role are instructions.
func isSystem(role string) bool { return role == "system" || role == "developer" }

// optionsInSession returns what a run of a session is asked for. param is the parameter
// that holds the instructions.
func optionsInSession(param string, given llm.Options, hasTools bool, instructions []string) (o conversation.RunOptions, err error) {
	const own = "Parameter '%s' is not supported in a session, which has the gateway's tools. Leave it out, or name no session."
	for name, isGiven := range map[string]bool{
		"tools": hasTools, "tool_choice": isGiven(given.ToolChoice), "parallel_tool_calls": given.ParallelToolCalls != nil,
	} {
		if isGiven {
			return o, wrongParameter(name, "unsupported_parameter", fmt.Sprintf(own, name))
		}
	}
	var texts []string
	for _, text := range instructions {
		if text = strings.TrimSpace(text); text != "" {
			texts = append(texts, text)
		}
	}
	if o.Instructions = strings.Join(texts, "\n\n"); len(o.Instructions) > maxInstructions {
		return o, wrongParameter(param, "string_above_max_length",
			fmt.Sprintf("The instructions have %d bytes. Allowed in a session: %d.", len(o.Instructions), maxInstructions))
	}
	o.MaxTokens = given.MaxTokens
	parameters, err := json.Marshal(given)
	if string(parameters) != "{}" {
		o.Parameters = parameters
	}
	return o, err
}

// completionSession returns the session that the first of the names that is given names.
// A name without a channel is a session of this channel.
func completionSession(names ...string) (conversation.Key, error) {
	for _, name := range names {
		switch {
		case name == "":
		case strings.Contains(name, ":"):
			return ownKey(name)
		default:
			return ownKey(ChannelName + ":" + name)
		}
	}
	return defaultSession, nil
}
