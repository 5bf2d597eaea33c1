package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"parley/activity"
	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/kept"
	"parley/conversation/metadata"
	"parley/httpserver"
)

func (c *Channel) askOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "post-message", Method: http.MethodPost, Path: pathOfSession + "/messages", Tags: []string{tagMessages},
			Summary: "Say something, or append messages", MaxBodyBytes: hosted.MaxBody, BodyReadTimeout: 5 * time.Minute,
			Description: "Runs the agent and answers with its reply, as JSON or as server-sent events. A client that goes away stops nothing. " +
				"A request that is repeated with its Idempotency-Key gets the first result, or joins the run that makes it. With run=false the messages are only appended.",
			Errors: []int{http.StatusBadRequest, http.StatusForbidden, http.StatusConflict, http.StatusServiceUnavailable},
		}, c.postMessage).
			tells(http.StatusOK, "The answer. With run=false: what the same request appended before", answer{}, jsonType, eventType).
			tells(http.StatusCreated, "With run=false: what was appended", appendedList{}, jsonType).
			tells(http.StatusAccepted, "The client did not want to wait longer, or somebody must allow a tool call first; Location says where to ask", answer{}, jsonType).
			tells(http.StatusTooManyRequests, "A cap of [budget] is reached: the answer has failed with the error over_budget, and the message is kept", answer{}, jsonType),
		endpoint(c, huma.Operation{
			OperationID: "get-answer", Method: http.MethodGet, Path: pathOfSession + "/answers/{id}", Tags: []string{tagMessages},
			Summary:     "Ask for the answer to a message",
			Description: "By the id of the message, which is its Idempotency-Key. Answers are kept for a week, and go with their conversation.",
			Errors:      []int{http.StatusNotFound, http.StatusGone, http.StatusServiceUnavailable},
		}, c.getAnswer).
			tells(http.StatusOK, "The answer", answer{}, jsonType, eventType).
			tells(http.StatusAccepted, "There is none yet", answer{}, jsonType).
			tells(http.StatusTooManyRequests, "A cap of [budget] was reached", answer{}, jsonType),
	}
}

// Waiting is how a client wants to be answered.
type Waiting struct {
	Prefer string `header:"Prefer" doc:"wait=SECONDS: how long to wait for the answer (RFC 7240); default as long as the client stays" example:"wait=30"`
	Accept string `header:"Accept" doc:"text/event-stream for a stream of events" example:"text/event-stream"`
}

type postMessage struct {
	OfSession
	Waiting
	IdempotencyKey string `header:"Idempotency-Key" doc:"The message's id in its session: a repeat with the same key gets the first result, also after a restart. At most 128 letters, digits and . _ ~ : @ + = -" example:"task-42-1"`
	RunIn          string `query:"run" enum:"true,false" default:"true" doc:"false is run=false of the body"`
	Body           posted
}

// posted is the body of a message to be answered, or with run=false of messages
// to be appended.
type posted struct {
	Text   string `json:"text,omitempty" doc:"The text of the message; a command such as /status works as well" example:"Which tests fail?"`
	Files  []file `json:"files,omitempty" doc:"Pictures, and files of text"`
	Model  string `json:"model,omitempty" doc:"The model that answers this message, see GET /v1/models; default: that of the session"`
	Stream bool   `json:"stream,omitempty" doc:"Answer as a stream of server-sent events: accepted, delta, reset, tool_call, tool_result, approval, usage, and at the end done or error"`

	Run        *bool             `json:"run,omitempty" doc:"false: nobody answers; the message is appended to the conversation. Default true"`
	Role       conversation.Role `json:"role,omitempty" enum:"user,assistant,tool,system" doc:"With run=false: who says it; default user. The model is told system messages in every run"`
	Internal   bool              `json:"internal,omitempty" doc:"With run=false: only stored in the archive; neither people nor the model see it"`
	Metadata   json.RawMessage   `json:"metadata,omitempty" doc:"A JSON object that messages can be filtered by; of a message that is answered, the answer has it, too"`
	ToolCalls  []toolCall        `json:"tool_calls,omitempty" doc:"With run=false: of an assistant message, followed by a tool message for each in the same request"`
	ToolCallID string            `json:"tool_call_id,omitempty" doc:"With run=false: the call that a tool message answers"`
	Name       string            `json:"name,omitempty" doc:"With run=false: the tool's name"`
	Messages   []appended        `json:"messages,omitempty" maxItems:"200" doc:"With run=false: several messages in place of text; all are appended, or none"`
}

func (c *Channel) postMessage(ctx context.Context, in *postMessage) (*huma.StreamResponse, error) {
	key, err := ownKey(in.Key)
	if err != nil {
		return nil, err
	}
	if in.RunIn == "false" || in.Body.Run != nil && !*in.Body.Run {
		return c.append(ctx, key, in)
	}
	if field := in.Body.onlyAppended(); field != "" {
		return nil, problem(http.StatusUnprocessableEntity, "body.%s is for run=false alone.", field)
	}
	q, err := newQuestion(key, in.IdempotencyKey, in.Body.Text, in.Body.Files)
	if err != nil {
		return nil, err
	}
	if isGiven(in.Body.Metadata) {
		q.options.Metadata = metadata.Object(in.Body.Metadata)
	}
	if q.options.Model = in.Body.Model; q.options.Model != "" && !(slices.Contains(c.Named, q.options.Model) && c.MayUse(q.options.Model, key)) {
		return nil, problem(http.StatusUnprocessableEntity, "body.model: there is no model %q that this session may have.", shorten(q.options.Model))
	}
	in.Body.Files = nil // the answer may take long
	if err := c.take(ctx, &q); err != nil {
		return nil, err
	}
	return c.respond(q, in.Waiting, in.Body.Stream), nil
}

// onlyAppended returns the name of a field that a message to be answered can't
// have, "" when it has none.
func (p posted) onlyAppended() string {
	switch {
	case p.Role != "" && p.Role != conversation.RoleUser:
		return "role"
	case p.Internal:
		return "internal"
	case p.ToolCalls != nil:
		return "tool_calls"
	case p.ToolCallID != "":
		return "tool_call_id"
	case p.Name != "":
		return "name"
	case p.Messages != nil:
		return "messages"
	}
	return ""
}

type getAnswer struct {
	OfSession
	Waiting
	ID string `path:"id" doc:"The message's id" example:"task-42-1"`
}

// getAnswer returns the answer to an earlier message. It waits only when the
// client asks for that.
func (c *Channel) getAnswer(ctx context.Context, in *getAnswer) (*huma.StreamResponse, error) {
	key, err := parseKey(in.Key)
	if err != nil {
		return nil, err
	}
	q := question{key: key, id: in.ID, again: true}
	if !idForm.MatchString(q.id) { // with a space in it, it could name another session's message
		return nil, c.unanswered(ctx, q, kept.ErrNoAnswer)
	}
	if _, err := kept.New(c.Store).Answer(ctx, ChannelName, q.source()); err != nil {
		return nil, c.unanswered(ctx, q, err)
	}
	if in.Prefer == "" && !wantsEvents(in.Accept) {
		in.Prefer = "wait=0"
	}
	return c.respond(q, in.Waiting, false), nil
}

func wantsEvents(accept string) bool { return strings.Contains(accept, "text/event-stream") }

// respond answers an accepted question, whole or as a stream.
func (c *Channel) respond(q question, how Waiting, stream bool) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		_, w := humago.Unwrap(ctx)
		prefer := parsePrefer(how.Prefer)
		if stream || wantsEvents(how.Accept) {
			c.streamAnswer(ctx.Context(), w, q, prefer)
			return
		}
		c.writeAnswer(ctx.Context(), w, q, prefer)
	}}
}

// writeAnswer answers with JSON: 200 with the answer, or 202 when the client does
// not want to wait longer.
func (c *Channel) writeAnswer(ctx context.Context, w http.ResponseWriter, q question, prefer preference) {
	var to listener = untilAsked{}
	if q.again { // it knows, and waits for what comes
		to = unheard{}
	}
	a, err := c.await(ctx, q, prefer, to)
	status := http.StatusOK
	w.Header().Set("Content-Location", q.location())
	if errors.Is(err, errWaited) || err == nil && a.State == conversation.StatusWaiting {
		w.Header().Set("Location", q.location())
		w.Header().Set("Retry-After", "1")
		status, err = http.StatusAccepted, nil
	}
	if err != nil {
		writeProblem(w, c.unanswered(ctx, q, err))
		return
	}
	out, err := c.answerOf(ctx, q, a)
	if err != nil {
		writeProblem(w, c.problemOf(ctx, err))
		return
	}
	if out.Error.isOverBudget() {
		w.Header().Set("X-Should-Retry", "false") // the message is stored
		status = http.StatusTooManyRequests
	}
	writeJSON(w, status, out)
}

// asked sends the questions that were not sent yet.
func (s *answerStream) asked(open []approvals.Question) (bool, error) {
	var events []httpserver.Event
	for _, q := range open {
		if q.ID > s.told {
			s.told, events = q.ID, append(events, event(eventApproval, approvalOf(q)))
		}
	}
	return false, s.send(events)
}

// answerStream sends the progress of an answer to one client.
type answerStream struct {
	follower
	*httpserver.Events
	told int64 // ID of the newest question that was sent
}

func (s *answerStream) progress(p activity.Progress) error { return s.send(s.follow(p)) }

func (s *answerStream) send(events []httpserver.Event) error {
	if len(events) == 0 {
		return nil
	}
	return s.Send(events...)
}

// streamAnswer answers with events, the last of which is done or error. The run
// goes on when the client disconnects: the message is stored.
func (c *Channel) streamAnswer(ctx context.Context, w http.ResponseWriter, q question, prefer preference) {
	s := &answerStream{Events: httpserver.OpenEvents(w)}
	if s.Send(event(eventAccepted, accepted{q.id, string(q.key), q.location()})) != nil {
		return
	}
	a, err := c.await(ctx, q, prefer, s)
	if err != nil && !errors.Is(err, errWaited) {
		_ = s.Send(problemEvent(c.unanswered(ctx, q, err))) // a client that is gone has ended it
		return
	}
	out, err := c.answerOf(ctx, q, a)
	if err != nil {
		_ = s.Send(problemEvent(c.problemOf(ctx, err)))
		return
	}
	var events []httpserver.Event
	if a.State != conversation.StatusWaiting {
		events = append(s.missed(out.ToolCalls), s.turnTo(a.Text)...)
	}
	if out.Usage != nil {
		events = append(events, event(eventUsage, out.Usage))
	}
	_ = s.send(append(events, event(eventDone, out)))
}

// problemEvent returns a problem as the last event of a stream.
func problemEvent(err error) httpserver.Event {
	var p *huma.ErrorModel
	if !errors.As(err, &p) {
		panic(err) // problemOf gives nothing else
	}
	return event(eventError, p)
}

func writeProblem(w http.ResponseWriter, err error) {
	var headers huma.HeadersError
	if errors.As(err, &headers) {
		for name, values := range headers.GetHeaders() {
			w.Header()[name] = values
		}
	}
	var p *huma.ErrorModel
	if !errors.As(err, &p) {
		panic(err) // problemOf gives nothing else
	}
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, p.Status, p)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, value)
}

func write(w http.ResponseWriter, status int, value any) {
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // the values are plain; a client that is gone needs no answer
}
