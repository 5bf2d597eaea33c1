package api

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"parley/httpserver"
	"parley/llm"
)

// response is one of OpenAI's responses:
// https://platform.openai.com/docs/api-reference/responses/object
type response struct {
	ID          string               `json:"id"`
	Object      string               `json:"object"` // always response
	CreatedAt   int64                `json:"created_at"`
	CompletedAt *int64               `json:"completed_at"` // Unix time in seconds; null while the response is in progress
	Status      string               `json:"status"`
	Error       *responseError       `json:"error"`
	Incomplete  *responseIncomplete  `json:"incomplete_details"`
	Model       string               `json:"model"`
	Output      []map[string]any     `json:"output"`
	Usage       *responseUsage       `json:"usage"`
	Metadata    json.RawMessage      `json:"metadata"`
	Store       bool                 `json:"store"`
	Background  bool                 `json:"background"` // always false
	Truncation  string               `json:"truncation"`
	Previous    *string              `json:"previous_response_id"`
	Session     *responseSession     `json:"conversation"`
	New         bool                 `json:"new_conversation,omitempty"` // see answer.New
	Warnings    []string             `json:"warnings,omitempty"`         // see answer.Warnings
	User        *string              `json:"user"`
	Reasoning   responseReasoningOut `json:"reasoning"`

	Instructions      *string           `json:"instructions"`
	MaxOutputTokens   *int              `json:"max_output_tokens"`
	MaxToolCalls      *int              `json:"max_tool_calls"` // always null
	ParallelToolCalls bool              `json:"parallel_tool_calls"`
	Temperature       *float64          `json:"temperature"`
	TopP              *float64          `json:"top_p"`
	TopLogprobs       int               `json:"top_logprobs"` // always 0
	Text              responseText      `json:"text"`
	ToolChoice        json.RawMessage   `json:"tool_choice"`
	Tools             []json.RawMessage `json:"tools"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responseIncomplete struct {
	Reason string `json:"reason"`
}

type responseSession struct {
	ID string `json:"id"` // the key of the session
}

type responseReasoningOut struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"` // always null
}

type responseUsage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"` // always 0: servers count them with the others
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

func newResponseUsage(u llm.Usage) *responseUsage {
	usage := &responseUsage{Input: u.Prompt, Output: u.Completion, Total: u.Prompt + u.Completion}
	usage.InputDetails.Cached = u.Cached
	return usage
}

// The states of a response and of its items.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
	cancelled  = "cancelled" // the message was withdrawn before it was answered
)

// newResponse returns the response to a request before anything is said.
func newResponse(request responseRequest, id, model string, created int64, session bool) response {
	r := response{
		ID: id, Object: "response", CreatedAt: created, Status: inProgress, Model: model, Output: []map[string]any{},
		Metadata: request.Metadata, Store: session, Truncation: truncationOf(session), Previous: orNull(request.Previous), User: orNull(request.User),
		Reasoning: responseReasoningOut{Effort: orNull(request.Reasoning.Effort)}, Instructions: orNull(request.Instructions),
		ParallelToolCalls: request.ParallelToolCalls == nil || *request.ParallelToolCalls, Temperature: request.Temperature, TopP: request.TopP,
		Text: request.Text, ToolChoice: request.ToolChoice, Tools: request.Tools,
	}
	if most := request.MaxOutputTokens; most != nil && *most > 0 {
		r.MaxOutputTokens = most
	}
	if !isGiven(r.Metadata) {
		r.Metadata = json.RawMessage("{}")
	}
	if !isGiven(r.Text.Format) {
		r.Text.Format = json.RawMessage(`{"type":"text"}`)
	}
	if !isGiven(r.ToolChoice) {
		r.ToolChoice = json.RawMessage(`"auto"`)
	}
	if r.Tools == nil {
		r.Tools = []json.RawMessage{}
	}
	r.Text.Verbosity = cmp.Or(r.Text.Verbosity, defaultVerbosity)
	return r
}

// orNull returns a text, nil for none.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// responseOutput writes a response item by item, and makes the events of its stream:
// https://platform.openai.com/docs/api-reference/responses-streaming
type responseOutput struct {
	response
	streams bool               // the client gets events
	events  []httpserver.Event // events that take has not returned yet
	number  int                // number of the next event
	message map[string]any     // the output item that is being written; nil if there is none
	said    strings.Builder    // text of message so far
}

// take returns the events since the last call.
func (o *responseOutput) take() []httpserver.Event {
	events := o.events
	o.events = nil
	return events
}

// tell adds an event. The fields are written at once: what they name may change later.
func (o *responseOutput) tell(kind string, fields map[string]any) {
	if !o.streams {
		return
	}
	fields["type"], fields["sequence_number"] = kind, o.number
	o.number++
	o.events = append(o.events, event(kind, fields))
}

func (o *responseOutput) tellState(kind string) {
	o.tell(kind, map[string]any{"response": o.response})
}

// begin tells that the response was taken.
func (o *responseOutput) begin() {
	o.tellState("response.created")
	o.tellState("response.in_progress")
}

// item begins an item of a kind, with its fields.
func (o *responseOutput) item(kind, prefix string, fields map[string]any) map[string]any {
	fields["type"], fields["id"], fields["status"] = kind, fmt.Sprintf("%s_%s_%d", prefix, strings.TrimPrefix(o.ID, responsePrefix), len(o.Output)), inProgress
	o.tell("response.output_item.added", map[string]any{"output_index": len(o.Output), "item": fields})
	return fields
}

// endItem ends an item.
func (o *responseOutput) endItem(item map[string]any, status string) {
	item["status"] = status
	o.tell("response.output_item.done", map[string]any{"output_index": len(o.Output), "item": item})
	o.Output = append(o.Output, item)
}

// in returns fields that name the item being written.
func (o *responseOutput) in(item, fields map[string]any) map[string]any {
	fields["output_index"], fields["item_id"] = len(o.Output), item["id"]
	return fields
}

func textPart(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// say adds text to the message that is being written, or begins one.
func (o *responseOutput) say(text string) {
	if o.message == nil {
		o.said.Reset()
		o.message = o.item("message", "msg", map[string]any{"role": "assistant", "content": []any{}})
		o.tell("response.content_part.added", o.in(o.message, map[string]any{"content_index": 0, "part": textPart("")}))
	}
	o.said.WriteString(text)
	o.tell("response.output_text.delta", o.in(o.message, map[string]any{"content_index": 0, "delta": text, "logprobs": []any{}}))
}

// endMessage ends the message that is being written, if there is one.
func (o *responseOutput) endMessage(status string) {
	if o.message == nil {
		return
	}
	part := textPart(o.said.String())
	o.tell("response.output_text.done", o.in(o.message, map[string]any{"content_index": 0, "text": o.said.String(), "logprobs": []any{}}))
	o.tell("response.content_part.done", o.in(o.message, map[string]any{"content_index": 0, "part": part}))
	o.message["content"] = []any{part}
	o.endItem(o.message, status)
	o.message = nil
}

// call adds a call of one of the client's tools.
func (o *responseOutput) call(call llm.ToolCall, status string) {
	item := o.item("function_call", "fc", map[string]any{"call_id": call.ID, "name": call.Name, "arguments": ""})
	o.tell("response.function_call_arguments.delta", o.in(item, map[string]any{"delta": call.Arguments}))
	o.tell("response.function_call_arguments.done", o.in(item, map[string]any{"name": call.Name, "arguments": call.Arguments}))
	item["arguments"] = call.Arguments
	o.endItem(item, status)
}

// picture adds a picture that a model or a tool has made.
func (o *responseOutput) picture(image llm.Image) {
	item := o.item("image_generation_call", "ig", map[string]any{"result": nil})
	o.tell("response.image_generation_call.in_progress", o.in(item, map[string]any{}))
	o.tell("response.image_generation_call.completed", o.in(item, map[string]any{}))
	item["result"], item["output_format"] = base64.StdEncoding.EncodeToString(image.Data), strings.TrimPrefix(image.MediaType, "image/")
	o.endItem(item, completed)
}

// finish ends the response. Why an answer is not whole is one of llm's finish reasons.
func (o *responseOutput) finish(reason string, calls []llm.ToolCall, images []llm.Image, usage llm.Usage, now int64) {
	status := completed
	switch openAIReason(reason) {
	case llm.FinishLength:
		status, o.Incomplete = incomplete, &responseIncomplete{"max_output_tokens"}
	case llm.FinishContentFilter:
		status, o.Incomplete = incomplete, &responseIncomplete{"content_filter"}
	}
	o.endMessage(status)
	for _, image := range images {
		o.picture(image)
	}
	for _, call := range calls {
		o.call(call, status)
	}
	if o.Status, o.Usage = status, newResponseUsage(usage); status == completed {
		o.CompletedAt = &now
	}
	o.tellState("response." + status)
}

// fail ends the response with an error.
func (o *responseOutput) fail(e *openAIError) {
	o.endMessage(incomplete)
	o.Status, o.Error = failed, &responseError{Code: "server_error", Message: e.message}
	if code := e.body().Error.Code; code != nil && *code == "rate_limit_exceeded" {
		o.Error.Code = *code
	}
	o.tellState("response.failed")
}
