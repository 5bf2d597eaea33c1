package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"parley/channels/hosted"
	"parley/conversation/media"
	"parley/httpserver"
	"parley/llm"
)

// A request that names no session gets what OpenAI gives: an answer from the messages
// and with the tools that it brings along. The gateway adds nothing and stores nothing.

// completeStateless answers such a request.
func (c *Channel) completeStateless(w http.ResponseWriter, r *http.Request, request completionRequest) {
	model, err := c.askedModel(request.Model, ofPrograms)
	var call llm.Request
	if err == nil {
		call, err = c.callOf(request)
	}
	if err == nil && !c.gate.IsOpen() {
		err = c.problemOf(r.Context(), hosted.ErrClosed)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	s := stateless{c: c, model: model, call: call, id: "chatcmpl-" + strings.ToLower(rand.Text()), created: time.Now().Unix()}
	if request.Stream {
		s.stream(w, r, request.StreamOptions != nil && request.StreamOptions.IncludeUsage)
	} else {
		s.whole(w, r)
	}
}

// callOf returns the call of the model that a request asks for.
func (c *Channel) callOf(request completionRequest) (call llm.Request, err error) {
	if len(request.Messages) == 0 {
		return call, wrongParameter("messages", "empty_array", "messages is empty. Give at least one message.")
	}
	for i, m := range request.Messages {
		shown, err := c.messageOf(m)
		if err != nil {
			return call, inParameter(fmt.Sprintf("messages[%d]", i), err)
		}
		call.Messages = append(call.Messages, shown)
	}
	for i, t := range request.Tools {
		if t.Type != "function" || t.Function.Name == "" {
			return call, noFunction(i, `{"type": "function", "function": {"name": …}}`)
		}
		call.Tools = append(call.Tools, llm.Tool{
			Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters, Strict: t.Function.Strict,
		})
	}
	call.Options = &request.Options
	return call, nil
}

// noFunction refuses a tool that is not of the allowed form.
func noFunction(i int, allowed string) error {
	return wrongParameter(fmt.Sprintf("tools[%d]", i), "invalid_value", fmt.Sprintf("tools[%d] is no function with a name. Allowed: %s.", i, allowed))
}

// inParameter names the parameter at fault in a problem.
func inParameter(param string, err error) error {
	return wrongParameter(param, "invalid_value", param+": "+asOpenAIError(err).message)
}

// messageOf returns a message of a request as the model is sent it.
func (c *Channel) messageOf(m requestMessage) (shown llm.Message, err error) {
	switch {
	case isGiven(m.FunctionCall):
		return shown, problem(http.StatusBadRequest, "function_call is not supported here. Use tool_calls instead.")
	case isGiven(m.Audio):
		return shown, problem(http.StatusBadRequest, "audio is not supported here. Send its transcript as content.")
	}
	said, err := parseContent(m.Content)
	if err != nil {
		return shown, err
	}
	said.text = cmp.Or(said.text, m.Refusal)
	return c.toModel(m, said)
}

// toModel is messageOf for a message whose content was read.
func (c *Channel) toModel(m requestMessage, said content) (shown llm.Message, err error) {
	shown = llm.Message{Role: m.Role, Name: m.Name, Content: said.text, ToolCallID: m.ToolCallID}
	switch m.Role {
	case "developer": // the newer name of system, which few servers know
		shown.Role = "system"
	case "system", "user", "assistant":
	case "tool":
		if m.ToolCallID == "" {
			return shown, problem(http.StatusBadRequest, "a tool message needs the tool_call_id of the call that it answers.")
		}
	default:
		return shown, problem(http.StatusBadRequest, "the role %q is not known. Allowed: system, developer, user, assistant, tool.", shorten(m.Role))
	}
	for i, call := range m.ToolCalls {
		if call.ID == "" || call.Function.Name == "" {
			return shown, problem(http.StatusBadRequest, "tool_calls[%d] is no call of a function with an id and a name.", i)
		}
		shown.ToolCalls = append(shown.ToolCalls, llm.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	if shown.Images, err = c.imagesOf(m.Role, said.files); err != nil {
		return shown, err
	}
	if shown.Role == "user" && strings.TrimSpace(shown.Content) == "" && len(shown.Images) == 0 {
		return shown, problem(http.StatusBadRequest, "the message is empty.")
	}
	return shown, nil
}

// imagesOf returns the pictures of a message. Other files need a session, which
// keeps them.
func (c *Channel) imagesOf(role string, files []file) (images []llm.Image, err error) {
	if err := checkFiles(files); err != nil {
		return nil, err
	}
	for _, f := range files {
		switch {
		case !media.IsImageType(f.MediaType):
			return nil, problem(http.StatusBadRequest, "files other than pictures are taken only in a session; put the text into the message, or name a session in user or X-Session-Key.")
		case role != "user":
			return nil, problem(http.StatusBadRequest, "only a user message can have pictures.")
		case !c.Vision:
			return nil, problem(http.StatusBadRequest, "the gateway's model takes no pictures.")
		}
		images = append(images, llm.Image{MediaType: f.MediaType, Data: f.Data})
	}
	return images, nil
}

// stateless answers one request without a session.
type stateless struct {
	c       *Channel
	model   string // a name of Deps.Named; "" = the first of Deps.Models
	call    llm.Request
	id      string
	created int64 // seconds since 1970
}

// answer returns an answer in OpenAI's shape.
func (s stateless) answer(object, model string, choices []choice, usage *completionUsage) completionAnswer {
	if model = cmp.Or(model, s.model); model == "" {
		model = s.c.Models[0]
	}
	return completionAnswer{ID: s.id, Object: object, Created: s.created, Model: model, Choices: choices, Usage: usage}
}

// whole answers with one JSON object.
func (s stateless) whole(w http.ResponseWriter, r *http.Request) {
	response, err := s.c.Complete(r.Context(), s.model, s.call, nil)
	if err != nil {
		e := s.c.modelFailure(r.Context(), w.Header(), err)
		writeJSON(w, e.status, e.body())
		return
	}
	message := &chatMessage{Role: "assistant", ToolCalls: callsOf(response.ToolCalls), Images: chatImagesOf(response.Images)}
	if response.Text != "" || len(response.ToolCalls) == 0 {
		message.Content = &response.Text
	}
	reason := finishReasonOf(response)
	writeJSON(w, http.StatusOK, s.answer("chat.completion", response.Model,
		[]choice{{Message: message, FinishReason: &reason}}, usageOfResponse(response)))
}

// finishReasonOf returns why an answer ended. Servers that do not say so have ended
// it by themselves.
func finishReasonOf(response llm.Response) string {
	switch {
	case response.FinishReason != "":
		return openAIReason(response.FinishReason)
	case len(response.ToolCalls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// openAIReason returns a finish reason as OpenAI's clients know it. An answer whose
// stream broke off can be continued like one that has reached its limit.
func openAIReason(reason string) string {
	if reason == llm.FinishCutOff {
		return llm.FinishLength
	}
	return reason
}

func usageOfResponse(response llm.Response) *completionUsage {
	u := response.Usage
	return &completionUsage{u.Prompt, u.Completion, u.Prompt + u.Completion}
}

// callsOf returns calls of tools in OpenAI's shape.
func callsOf(calls []llm.ToolCall) (list []chatCall) {
	for _, call := range calls {
		c := chatCall{ID: call.ID, Type: "function"}
		c.Function.Name, c.Function.Arguments = call.Name, call.Arguments
		list = append(list, c)
	}
	return list
}

// errBrokenOff ends a call that would start again after a part of its answer was sent:
// the protocol can't take back what was said.
var errBrokenOff = errors.New("the answer broke off")

// brokenOff tells the client so.
func brokenOff() *openAIError {
	return &openAIError{status: http.StatusServiceUnavailable, message: "The model's answer broke off in the middle. Please try again."}
}

// stream answers with chunks: the text as it comes, the tool calls, a last chunk with
// the finish reason, the usage where it is asked for, and [DONE].
func (s stateless) stream(w http.ResponseWriter, r *http.Request, usage bool) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	answering := s.model          // the model that answers: a fallback has another name
	var events *httpserver.Events // opened with the first text: a call that fails before has a status
	send := func(list ...httpserver.Event) {
		if events == nil {
			events = httpserver.OpenEvents(w)
			empty := ""
			list = append([]httpserver.Event{s.chunk(answering, &chatMessage{Role: "assistant", Content: &empty}, nil)}, list...)
		}
		if err := events.Send(list...); err != nil {
			cancel(err)
		}
	}
	call := s.call
	call.Final = true
	response, err := s.c.Complete(ctx, s.model, call, func(d llm.Delta) {
		switch {
		case d.Reset && events != nil: // else only a thought is void, which was not sent
			cancel(errBrokenOff)
		case d.Text != "":
			answering = d.Model
			send(s.chunk(answering, &chatMessage{Content: &d.Text}, nil))
		}
	})
	if err != nil {
		s.streamFailure(w, r, events, context.Cause(ctx), err)
		return
	}
	answering = response.Model
	var last []httpserver.Event
	if len(response.Images) > 0 {
		last = append(last, s.chunk(answering, &chatMessage{Images: chatImagesOf(response.Images)}, nil))
	}
	for i, call := range callsOf(response.ToolCalls) {
		call.Index = &i
		last = append(last, s.chunk(answering, &chatMessage{ToolCalls: []chatCall{call}}, nil))
	}
	reason := finishReasonOf(response)
	last = append(last, s.chunk(answering, &chatMessage{}, &reason))
	if usage {
		last = append(last, event("", s.answer("chat.completion.chunk", response.Model, []choice{}, usageOfResponse(response))))
	}
	send(append(last, httpserver.Event{Data: "[DONE]"})...)
}

// streamFailure answers a call that has failed: with a status, or where the stream
// has begun with an event.
func (s stateless) streamFailure(w http.ResponseWriter, r *http.Request, events *httpserver.Events, cause, err error) {
	var e *openAIError
	if errors.Is(cause, errBrokenOff) {
		e = brokenOff()
	} else {
		e = s.c.modelFailure(r.Context(), w.Header(), err)
	}
	if events == nil {
		writeJSON(w, e.status, e.body())
		return
	}
	_ = events.Send(event("", e.body())) // a client that is gone has ended it
}

func (s stateless) chunk(model string, delta *chatMessage, finish *string) httpserver.Event {
	return event("", s.answer("chat.completion.chunk", model, []choice{{Delta: delta, FinishReason: finish}}, nil))
}
