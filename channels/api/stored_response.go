package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/kept"
)

// Responses of a session can be asked for again, as long as their answers are kept:
// https://platform.openai.com/docs/api-reference/responses/get

// sourceOf returns the id in the store of the question that a response answers.
func sourceOf(response string) (source string, ok bool) {
	encoded, ok := strings.CutPrefix(response, responsePrefix)
	if !ok {
		return "", false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	return string(decoded), err == nil
}

// storedAnswer returns the answer that a response holds. The error wraps
// kept.ErrNoAnswer where no such response is stored.
func (c *Channel) storedAnswer(ctx context.Context, response string) (kept.Answer, error) {
	source, ok := sourceOf(response)
	if !ok {
		return kept.Answer{}, kept.ErrNoAnswer
	}
	a, err := kept.New(c.Store).Answer(ctx, ChannelName, source)
	if err == nil && a.State == conversation.StatusGone {
		err = kept.ErrNoAnswer
	}
	return a, err
}

// noResponse returns the error of storedAnswer as a problem.
func (c *Channel) noResponse(ctx context.Context, id string, err error) error {
	if !errors.Is(err, kept.ErrNoAnswer) {
		return c.problemOf(ctx, err)
	}
	return &openAIError{status: http.StatusNotFound, message: fmt.Sprintf("Response with id '%s' not found. "+
		"Only responses of a session are stored, for about a week; those without a session, and deleted ones, are not.", shorten(id))}
}

// getResponse returns a stored response as it stands now.
func (c *Channel) getResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("response")
	for name, values := range r.URL.Query() {
		if name == "stream" && slices.Equal(values, []string{"false"}) { // what clients mean without it
			continue
		}
		refuse(w, wrongParameter(name, "unknown_parameter", fmt.Sprintf("Unknown parameter: '%s'. Leave it out.", shorten(name))))
		return
	}
	a, err := c.storedAnswer(r.Context(), id)
	var metadata json.RawMessage
	if err == nil {
		metadata, err = c.metadataOf(r.Context(), a)
	}
	if err != nil {
		refuse(w, c.noResponse(r.Context(), id, err))
		return
	}
	writeJSON(w, http.StatusOK, c.storedResponse(r.Context(), id, a, metadata))
}

// metadataOf returns the metadata of an answer, nil for none.
func (c *Channel) metadataOf(ctx context.Context, a kept.Answer) (json.RawMessage, error) {
	if a.Conversation == "" || a.Through == 0 {
		return nil, nil
	}
	page, err := c.Store.Messages(ctx, conversation.MessageQuery{Conversation: a.Conversation, View: conversation.ViewAll, Before: a.Through + 1, Limit: 1})
	if err != nil || len(page.Messages) == 0 || page.Messages[0].RunID != a.RunID {
		return nil, err
	}
	return object(page.Messages[0].Metadata), nil
}

// storedResponse returns the response that holds an answer.
func (c *Channel) storedResponse(ctx context.Context, id string, a kept.Answer, metadata json.RawMessage) response {
	s := &sessionResponse{c: c, q: question{key: a.Key}}
	s.out.response = newResponse(responseRequest{Metadata: metadata}, id, cmp.Or(a.Model, c.Models[0]), a.AskedAt.Unix(), true)
	s.out.Session = &responseSession{string(a.Key)}
	switch a.State {
	case conversation.StatusWaiting:
	case conversation.StatusWithdrawn:
		s.out.Status = cancelled
	case conversation.StatusFailed:
		s.out.fail(asOpenAIError(c.failureOf(ctx, a)))
	default:
		s.end(ctx, a)
	}
	return s.out.response
}

// deletedResponse says that a response is deleted.
type deletedResponse struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // always response
	Deleted bool   `json:"deleted"`
}

// deleteResponse forgets a stored response. As with OpenAI, the messages of its
// conversation remain.
func (c *Channel) deleteResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("response")
	a, err := c.storedAnswer(r.Context(), id)
	if err == nil && a.State == conversation.StatusWaiting {
		refuse(w, &openAIError{status: http.StatusConflict, message: fmt.Sprintf(
			"Response with id '%s' is still in progress. Delete it when it has ended, or stop its run first.", shorten(id))})
		return
	}
	if err == nil {
		source, _ := sourceOf(id)
		err = kept.New(c.Store).Forget(r.Context(), ChannelName, source)
	}
	if err != nil {
		refuse(w, c.noResponse(r.Context(), id, err))
		return
	}
	writeJSON(w, http.StatusOK, deletedResponse{id, "response", true})
}
