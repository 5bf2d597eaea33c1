package api

import (
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"parley/httpserver"
)

type humaContext = huma.Context // embedded under a name that is no method of it

// watchedRequest is a request of which is known why its body could not be read. huma tells
// clients of that in words of its own, and with other statuses.
type watchedRequest struct {
	humaContext
	failed error // error of reading the body; nil: there was none
}

// watchBody is a middleware that watches how the body of a request is read.
func watchBody(ctx huma.Context, next func(huma.Context)) { next(&watchedRequest{humaContext: ctx}) }

// Unwrap is for humago.
func (r *watchedRequest) Unwrap() huma.Context { return r.humaContext }

// BodyReader returns the body.
func (r *watchedRequest) BodyReader() io.Reader {
	body := r.humaContext.BodyReader()
	return readerFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		if err != nil && err != io.EOF {
			r.failed = err
		}
		return n, err
	})
}

// SetStatus writes the status, or that of the problem with the body.
func (r *watchedRequest) SetStatus(status int) {
	if r.failed != nil && status >= http.StatusBadRequest {
		status, _ = httpserver.BodyError(r.failed)
	}
	r.humaContext.SetStatus(status)
}

// ownBodyProblem replaces what huma says of a body that could not be read.
func ownBodyProblem(ctx huma.Context, _ string, v any) (any, error) {
	r, isWatched := ctx.(*watchedRequest)
	if _, isProblem := v.(*huma.ErrorModel); !isProblem || !isWatched || r.failed == nil {
		return v, nil
	}
	status, detail := httpserver.BodyError(r.failed)
	return problem(status, "%s", detail), nil
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
