package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"parley/channels/hosted"
	"parley/conversation"
	"parley/sessions"
)

// problem returns an error for the client:
// https://www.rfc-editor.org/rfc/rfc9457
func problem(status int, format string, args ...any) *huma.ErrorModel {
	return &huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// withRetryAfter returns a problem that passes by itself, with the seconds after
// which to ask again.
func withRetryAfter(seconds int, p *huma.ErrorModel) error {
	return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {fmt.Sprint(seconds)}})
}

// problemOf returns an error as a problem. It logs an internal error under an id, which
// it tells the client.
func (c *Channel) problemOf(ctx context.Context, err error) error {
	var told huma.StatusError
	var refused *openAIError
	switch {
	case errors.As(err, &told), errors.As(err, &refused):
		return err
	case errors.Is(err, conversation.ErrNoSession):
		return problem(http.StatusNotFound, "There is no such session.")
	case errors.Is(err, conversation.ErrNotFound):
		return problem(http.StatusNotFound, "There is no such conversation. It may have been deleted.")
	case errors.Is(err, conversation.ErrInvalid):
		return problem(http.StatusUnprocessableEntity, "%s.", sentence(err, conversation.ErrInvalid))
	case errors.Is(err, conversation.ErrReused):
		return problem(http.StatusUnprocessableEntity, "The Idempotency-Key was used for another request.")
	case errors.Is(err, conversation.ErrMoved):
		return withRetryAfter(movedTime, problem(http.StatusServiceUnavailable,
			"The gateway can't reach its database and stores nothing at the moment. Send the request again later, with the same Idempotency-Key if it has one."))
	case conversation.IsDiskFull(err): // the store has logged it
		return withRetryAfter(movedTime, problem(http.StatusServiceUnavailable,
			"The gateway's disk is full, and nothing is stored at the moment. Send the request again later, with the same Idempotency-Key if it has one."))
	case conversation.IsDamaged(err):
		return problem(http.StatusInternalServerError,
			"What is stored here can't be read or added to: the gateway's database is damaged. Its operator has been told. /new, or a reset, begins a fresh conversation in a session.")
	case errors.Is(err, hosted.ErrClosed), errors.Is(err, sessions.ErrEnding), c.gate.IsEnding():
		return withRetryAfter(restartTime, problem(http.StatusServiceUnavailable, "The gateway is starting or shutting down. Nothing was changed; try again in a moment."))
	case errors.Is(err, sessions.ErrBusy):
		return withRetryAfter(5, problem(http.StatusConflict, "The session is busy with an answer. Try again in a moment, or stop it with /stop."))
	case ctx.Err() != nil:
		return problem(http.StatusRequestTimeout, "The request ended before it was answered.") // nobody reads it
	}
	id := rand.Text()
	c.Log.Error("API request failed", "id", id, "error", err)
	return problem(http.StatusInternalServerError, "Something went wrong. The gateway's log has the details under the id %s.", id)
}

// restartTime is about how many seconds a restart of the gateway takes.
const restartTime = 5

// movedTime is how many seconds a client should wait while the database is not in
// its place, or its disk is full: an operator has to do something about it.
const movedTime = 30

// sentence returns what an error says after the words of a sentinel.
func sentence(err, sentinel error) string {
	_, text, found := strings.Cut(err.Error(), sentinel.Error()+": ")
	if !found || text == "" {
		text = err.Error()
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// firstDetail copies the first problem with the parts of a request into the
// detail. It removes the values: they are the client's own and may be huge. A body
// that is missing, or of another type than JSON, is told in words of this API.
func firstDetail(ctx huma.Context, _ string, v any) (any, error) {
	p, ok := v.(*huma.ErrorModel)
	switch {
	case ok && p.Status == http.StatusUnsupportedMediaType:
		return problem(p.Status, "The body has the type %s. Allowed: application/json.", shorten(ctx.Header("Content-Type"))), nil
	case ok && p.Status == http.StatusBadRequest && p.Detail == "request body is required":
		return problem(p.Status, "The request has no body. Allowed: JSON, with the header Content-Type: application/json."), nil
	case !ok || len(p.Errors) == 0:
		return v, nil
	}
	for _, e := range p.Errors {
		e.Value = nil
	}
	first := p.Errors[0]
	p.Detail = strings.TrimSpace(first.Location + " " + first.Message)
	return p, nil
}
