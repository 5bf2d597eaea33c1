package httpserver

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"time"
)

// slowest is the lowest rate, in bytes a second, at which a long body must
// arrive.
const slowest = 32 << 10

// limitBody limits the body of a request in bytes and in time. The time of the
// handler after the body's end does not count.
func (s *Server) limitBody(a http.ResponseWriter, r *http.Request, most int64) {
	if hasBody(r) {
		s.limitBodyTime(a, r, most)
		r.Body = &body{ReadCloser: http.MaxBytesReader(a, r.Body, most), control: http.NewResponseController(a)}
	}
}

// limitBodyTime sets how long a body of that many bytes may take to arrive.
// net/http waits as long for the rest of the body of a request that is refused.
func (s *Server) limitBodyTime(a http.ResponseWriter, r *http.Request, most int64) {
	if hasBody(r) {
		timeout := s.limits.BodyTimeout + time.Duration(most/slowest)*time.Second
		_ = http.NewResponseController(a).SetReadDeadline(time.Now().Add(timeout)) // a closed connection shows in the read
	}
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

type body struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Close leaves the body to the server, which reads the rest or closes the
// connection. If the handler closed it, the server would take it for read, and
// the rest for the next request.
func (*body) Close() error { return nil }

// BodyProblem answers that a body could not be read or understood. err is the
// error of reading it.
func BodyProblem(w http.ResponseWriter, r *http.Request, err error) {
	status, detail := BodyError(err)
	Problem(w, r, status, detail)
}

// BodyError returns the status and the words for a client whose body could not be read.
func BodyError(err error) (status int, detail string) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is too large. Allowed: %d bytes.", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, "The body came too slowly."
	case errors.Is(err, errNoSpool):
		return http.StatusInsufficientStorage, "There is no room to take so large a body. Try again later."
	}
	return http.StatusBadRequest, "The body can't be read: " + err.Error() + "."
}

// WithForm reads the form of a request into memory before h sees it, in either of
// HTML's two encodings. It answers a body that is too large or broken with a
// problem.
func WithForm(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(math.MaxInt64); err != nil && !errors.Is(err, http.ErrNotMultipart) {
			BodyProblem(w, r, err)
			return
		}
		h(w, r)
	}
}
