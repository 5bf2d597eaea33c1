package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"parley/activity"
	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/kept"
	"parley/httpserver"
	"parley/llm"
)

// OpenAI's responses: https://platform.openai.com/docs/api-reference/responses. As with
// chat completions, a request that names a session continues it with what is new at the
// end of its input, and any other is stateless.

// responsePrefix is how the ids of responses begin.
const responsePrefix = "resp_"

// respondToItems answers a request for a response.
func (c *Channel) respondToItems(w http.ResponseWriter, r *http.Request) {
	request, err := readResponseRequest(r)
	var names []string // names that the request gives its session
	if err == nil {
		names, err = c.sessionNames(r.Context(), request, r.Header)
	}
	session := len(names) > 0 || !c.Stateless
	if err == nil {
		err = request.checkFor(session)
	}
	switch {
	case err != nil:
		refuse(w, c.problemOf(r.Context(), err))
	case session:
		c.respondInSession(w, r, request, names)
	default:
		c.respondStateless(w, r, request)
	}
}

// sessionNames returns the names that the request gives its session, the one that counts
// first.
func (c *Channel) sessionNames(ctx context.Context, request responseRequest, header http.Header) (names []string, err error) {
	for _, name := range []string{header.Get("X-Session-Key"), string(request.Conversation), request.User} {
		if name != "" {
			names = append(names, name)
		}
	}
	if request.Previous == "" {
		return names, nil
	}
	key, err := c.continued(ctx, request.Previous)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		if named, err := completionSession(names...); err != nil || named != key {
			return nil, wrongParameter("previous_response_id", "invalid_value",
				fmt.Sprintf("previous_response_id belongs to the session %s, and the request names another one. Leave one of the two out.", key))
		}
	}
	return []string{string(key)}, nil
}

// responseID returns the id of the response to a question, which tells where it stands in
// the store.
func responseID(q question) string {
	return responsePrefix + base64.RawURLEncoding.EncodeToString([]byte(q.source()))
}

// continued returns the session of a response. Only the newest response of a session that
// goes on can be continued: the session's next answer knows all that was said in it.
func (c *Channel) continued(ctx context.Context, response string) (conversation.Key, error) {
	const param, notFound = "previous_response_id", "previous_response_not_found"
	unknown := wrongParameter(param, notFound, fmt.Sprintf(
		"Previous response with id '%s' not found. Only responses of a session are kept, which 'conversation', 'user' or the header X-Session-Key names; without a session send the whole input.",
		shorten(response)))
	a, err := c.storedAnswer(ctx, response)
	if errors.Is(err, kept.ErrNoAnswer) {
		return "", unknown
	}
	if err != nil {
		return "", err
	}
	newest, err := c.isNewest(ctx, a)
	if err == nil && !newest {
		err = wrongParameter(param, notFound, fmt.Sprintf(
			"Previous response with id '%s' is not the newest of the session %s, or its conversation is over: it can't be continued. Leave previous_response_id out, and name the session in 'conversation' to go on in it.",
			shorten(response), a.Key))
	}
	return a.Key, err
}

// isNewest reports whether an answer is the last of its session's conversation, which goes
// on with the next message.
func (c *Channel) isNewest(ctx context.Context, a kept.Answer) (bool, error) {
	active, err := c.Store.Active(ctx, a.Key)
	if err != nil || active.ID != a.Conversation || active.Messages == 0 {
		return false, err
	}
	if e := c.expiresAt(true, active.UpdatedAt); e != nil && e.Before(c.Store.Now()) {
		return false, nil
	}
	page, err := c.Store.Messages(ctx, conversation.MessageQuery{Conversation: a.Conversation, View: conversation.ViewPeople, Limit: 1})
	return err == nil && len(page.Messages) == 1 && page.Messages[0].RunID == a.RunID, err
}

// respondStateless answers a request that names no session.
func (c *Channel) respondStateless(w http.ResponseWriter, r *http.Request, request responseRequest) {
	model, err := c.askedModel(request.Model, ofPrograms)
	var call llm.Request
	if err == nil {
		call, err = c.responseCall(request)
	}
	if err == nil && !c.gate.IsOpen() {
		err = hosted.ErrClosed
	}
	if err != nil {
		refuse(w, c.problemOf(r.Context(), err))
		return
	}
	id := responsePrefix + strings.ToLower(rand.Text())
	s := &statelessResponse{c: c, model: model, call: call}
	s.out.response = newResponse(request, id, cmp.Or(model, c.Models[0]), time.Now().Unix(), false)
	if request.Stream {
		s.stream(w, r)
	} else {
		s.whole(w, r)
	}
}

// statelessResponse answers one request without a session.
type statelessResponse struct {
	out   responseOutput
	c     *Channel
	model string // a name of Deps.Named; "" = the first of Deps.Models
	call  llm.Request
}

func (s *statelessResponse) end(answer llm.Response) {
	s.out.Model = cmp.Or(answer.Model, s.out.Model)
	s.out.finish(answer.FinishReason, answer.ToolCalls, answer.Images, answer.Usage, time.Now().Unix())
}

// failure returns the error of a call that has failed.
func (s *statelessResponse) failure(r *http.Request, header http.Header, err error) *openAIError {
	e := s.c.modelFailure(r.Context(), header, err)
	if e.param == "messages" {
		e.param = "input"
	}
	return e
}

// whole answers with one JSON object.
func (s *statelessResponse) whole(w http.ResponseWriter, r *http.Request) {
	answer, err := s.c.Complete(r.Context(), s.model, s.call, nil)
	if err != nil {
		e := s.failure(r, w.Header(), err)
		writeJSON(w, e.status, e.body())
		return
	}
	if answer.Text != "" {
		s.out.say(answer.Text)
	}
	s.end(answer)
	writeJSON(w, http.StatusOK, s.out.response)
}

// stream answers with events. A call that fails before its first text has a status.
func (s *statelessResponse) stream(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	var events *httpserver.Events
	send := func() {
		if events == nil {
			events = httpserver.OpenEvents(w)
		}
		if err := events.Send(s.out.take()...); err != nil {
			cancel(err)
		}
	}
	begin := func(model string) { // when the model that answers is known: it may be a fallback
		if events == nil {
			s.out.Model = cmp.Or(model, s.out.Model)
			s.out.begin()
		}
	}
	s.out.streams = true
	call := s.call
	call.Final = true
	answer, err := s.c.Complete(ctx, s.model, call, func(d llm.Delta) {
		switch {
		case d.Reset && events != nil:
			cancel(errBrokenOff)
		case d.Text != "":
			begin(d.Model)
			s.out.say(d.Text)
			send()
		}
	})
	switch {
	case err == nil:
		begin(answer.Model)
		s.end(answer)
	case events == nil:
		e := s.failure(r, w.Header(), err)
		writeJSON(w, e.status, e.body())
		return
	case errors.Is(context.Cause(ctx), errBrokenOff):
		s.out.fail(brokenOff())
	default:
		s.out.fail(s.failure(r, http.Header{}, err))
	}
	send()
}

// respondInSession answers a request that names a session.
func (c *Channel) respondInSession(w http.ResponseWriter, r *http.Request, request responseRequest, names []string) {
	q, err := c.responseQuestion(request, names, r.Header.Get("Idempotency-Key"))
	if err == nil {
		q.options.Model, err = c.askedModel(request.Model, q.key)
	}
	if err == nil {
		err = c.take(r.Context(), &q)
	}
	if err != nil {
		refuse(w, c.problemOf(r.Context(), err))
		return
	}
	s := &sessionResponse{c: c, q: q}
	s.out.response = newResponse(request, responseID(q), cmp.Or(q.options.Model, c.Models[0]), time.Now().Unix(), true)
	s.out.Session = &responseSession{string(q.key)}
	if request.Stream {
		s.stream(w, r)
	} else {
		s.whole(w, r)
	}
}

// sessionResponse answers one question of a session.
type sessionResponse struct {
	out    responseOutput
	c      *Channel
	q      question
	text   string             // text of the model call under way that is in out
	events *httpserver.Events // the stream of events; nil if the answer is not streamed
}

// whole answers with one JSON object.
func (s *sessionResponse) whole(w http.ResponseWriter, r *http.Request) {
	a, err := s.c.settled(r.Context(), s.q, unheard{})
	if err != nil {
		refuseStored(w, err)
		return
	}
	s.end(r.Context(), a)
	writeJSON(w, http.StatusOK, s.out.response)
}

// end ends the response with an answer. Of a stream a part of its text was said.
func (s *sessionResponse) end(ctx context.Context, a kept.Answer) {
	s.text = saidOf(a.Text, s.text)
	s.turnTo(a.Text)
	s.out.Model, s.out.New, s.out.Warnings = cmp.Or(a.Model, s.out.Model), a.Began, a.Warnings
	usage := llm.Usage{Prompt: a.Prompt, Completion: a.Completion}
	s.out.finish(string(a.FinishReason), nil, s.c.picturesOf(ctx, a), usage, a.At.Unix())
}

// stream answers with events. What a model says before it calls a tool of the gateway is
// a message of its own.
func (s *sessionResponse) stream(w http.ResponseWriter, r *http.Request) {
	s.events, s.out.streams = httpserver.OpenEvents(w), true
	s.out.begin()
	if s.send() != nil {
		return
	}
	if a, err := s.c.settled(r.Context(), s.q, s); err != nil {
		s.out.fail(asOpenAIError(err))
	} else {
		s.end(r.Context(), a)
	}
	_ = s.send() // a client that is gone has ended it
}

func (s *sessionResponse) send() error { return s.events.Send(s.out.take()...) }

func (s *sessionResponse) turnTo(text string) {
	news, goesOn := strings.CutPrefix(text, s.text)
	if text == "" || goesOn && news == "" { // nothing, or a call that is made anew
		return
	}
	if !goesOn {
		s.out.endMessage(completed)
		news = text
	}
	s.text = text
	s.out.say(news)
}

func (s *sessionResponse) progress(p activity.Progress) error {
	s.turnTo(p.Text)
	if len(s.out.events) == 0 {
		return nil
	}
	return s.send()
}

func (s *sessionResponse) asked([]approvals.Question) (bool, error) { return false, nil }

func (s *sessionResponse) Beat() error { return s.events.Beat() }
