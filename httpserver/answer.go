package httpserver

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// answer is the response to one request. Each write has a deadline of its own, so
// that a slow client is cut off while a handler may take its time.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	status  int  // HTTP status; 0 until it is written
	noBody  bool // the answer has no body, since the request is a HEAD
}

func newAnswer(w http.ResponseWriter, r *http.Request, timeout time.Duration) *answer {
	return &answer{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout, noBody: r.Method == http.MethodHead}
}

// piece is how many bytes of an answer a client must take within the time for a
// write, so that a long text in one write reaches a slow line as well.
const piece = 64 << 10

func (a *answer) WriteHeader(status int) {
	if status >= 200 { // others are only informational
		a.status = status
	}
	a.extend()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (written int, err error) {
	a.status = cmp.Or(a.status, http.StatusOK)
	for {
		a.extend()
		n, err := a.ResponseWriter.Write(b[written:min(len(b), written+piece)])
		written += n
		if err != nil || written == len(b) {
			return written, err
		}
	}
}

// FlushError is called by http.ResponseController. For HEAD it fails: no write
// would ever show that the client of a stream is gone.
func (a *answer) FlushError() error {
	a.status = cmp.Or(a.status, http.StatusOK)
	a.extend()
	if err := a.control.Flush(); err != nil || !a.noBody {
		return err
	}
	return http.ErrBodyNotAllowed
}

// Flush makes the answer an http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() } // a broken connection shows in the next write

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) extend() {
	_ = a.control.SetWriteDeadline(time.Now().Add(a.timeout)) // a closed connection shows in the write
}

// recovered answers for a handler that has panicked. The client gets only an id,
// which the log has as well.
func (s *Server) recovered(a *answer, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	id := rand.Text()
	s.log.Error("request handler panicked", "id", id, "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	if a.status != 0 {
		panic(http.ErrAbortHandler) // the client must not take half an answer for a whole one
	}
	clear(a.Header()) // what the handler has said of its own answer
	setHeaders(a.Header())
	Problem(a, r, http.StatusInternalServerError, "Something went wrong. The gateway's log has the details under the id "+id+".")
}

// discard records the status and the header of an answer, and drops its body.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }
