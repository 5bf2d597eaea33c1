package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/plaintext"
)

const (
	maxErrorBody = 64 << 10 // bytes that are read of an error response

	// finishingTimeout is how long a server may take to end a stream after the
	// finish reason. Only the usage is still to come.
	finishingTimeout = 5 * time.Second

	// drainTimeout is how long a stream may take to end after [DONE]. After that its
	// connection is closed instead of reused.
	drainTimeout = 100 * time.Millisecond
)

var (
	errTimeout = errors.New("the server took longer than the timeout")
	errIdle    = errors.New("the stream fell silent")
)

// limits cancels an attempt that takes too long as a whole, or whose stream is silent
// for too long. Before the first byte only the first of these applies: a model may have
// to be loaded, or think, first.
type limits struct {
	cancel  context.CancelCauseFunc
	whole   *time.Timer
	idle    *time.Timer // runs out when the stream is silent for idleFor; nil before the first byte
	idleFor time.Duration
}

func newLimits(ctx context.Context, whole, idle time.Duration) (context.Context, *limits) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &limits{
		cancel:  cancel,
		whole:   time.AfterFunc(whole, func() { cancel(errTimeout) }),
		idleFor: idle,
	}
}

// progress is called for every piece of the answer, from the reading goroutine.
func (l *limits) progress() {
	if l.idle == nil {
		l.idle = time.AfterFunc(l.idleFor, func() { l.cancel(errIdle) })
		return
	}
	l.idle.Reset(l.idleFor)
}

// finishing shortens the limit of silence once the finish reason has arrived.
func (l *limits) finishing() { l.idleFor = min(l.idleFor, finishingTimeout) }

// drain shortens the limit of silence after [DONE].
func (l *limits) drain() {
	l.idleFor = drainTimeout
	l.progress()
}

func (l *limits) stop() {
	l.whole.Stop()
	if l.idle != nil {
		l.idle.Stop()
	}
	l.cancel(nil)
}

// cause returns the limit that has ended the call, or else err.
func (l *limits) cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errTimeout) || errors.Is(cause, errIdle) {
		return cause
	}
	return err
}

// exchange makes the HTTP request of one attempt for go-openai. It sends the whole
// request as the body, in place of the outline that go-openai knows. It returns
// refusals as *statusError, which keeps what go-openai's errors drop (Retry-After, the
// body), and converts streams to what go-openai's reader takes, see events.
type exchange struct {
	http    *http.Client
	body    []byte // body of the request
	limits  *limits
	secrets *plaintext.Redactor
}

// Do implements openai.HTTPDoer.
func (x *exchange) Do(req *http.Request) (*http.Response, error) {
	reused := false
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { reused = got.Reused },
	}))
	req.ContentLength = int64(len(x.body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
	req.Body, _ = req.GetBody() // cannot fail
	resp, err := x.http.Do(req)
	var redirected *redirectError
	switch {
	case err == nil:
	case reused && req.Context().Err() == nil && !errors.As(err, &redirected):
		return nil, &staleError{withoutURL(err)}
	default:
		return nil, withoutURL(err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a part is good enough
		return nil, &statusError{
			status:     resp.StatusCode,
			retryAfter: retryAfter(resp.Header, time.Now()),
			body:       x.secrets.Hide(string(body)),
		}
	}
	resp.Body = newEvents(resp.Body, x.limits)
	return resp, nil
}

// statusError is an error that a server has sent, as an HTTP status or in a stream.
type statusError struct {
	status     int // HTTP status; 0 for an error in a stream that has no status
	retryAfter time.Duration
	body       string // what the server said, without secrets
}

func (e *statusError) Error() string {
	if strings.TrimSpace(e.body) == "" {
		return "the server gave no reason"
	}
	if message, code := e.message(); message != "" {
		return "the server said " + excerpt(message) + code
	}
	return "the server said " + excerpt(e.body)
}

// message returns what an error in OpenAI's shape says, with its code in brackets, and "" for a body that
// says more than that: https://platform.openai.com/docs/guides/error-codes
func (e *statusError) message() (message, code string) {
	var body struct {
		Error struct {
			Message           string
			Type, Param, Code any
		}
	}
	decoder := json.NewDecoder(strings.NewReader(e.body))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&body) != nil {
		return "", ""
	}
	if text, ok := body.Error.Code.(string); ok && text != "" {
		code = fmt.Sprintf(" (%s)", text)
	}
	return strings.TrimSpace(body.Error.Message), code
}

// says reports whether the body contains one of the phrases, which are lower case.
func (e *statusError) says(phrases ...string) bool {
	body := strings.ToLower(e.body)
	for _, phrase := range phrases {
		if strings.Contains(body, phrase) {
			return true
		}
	}
	return false
}

func (e *statusError) refusesStreamOptions() bool {
	return (e.status == http.StatusBadRequest || e.status == http.StatusUnprocessableEntity) &&
		e.says("stream_options", "include_usage")
}

// retryAfter returns the wait that the server asks for, in either form of the header
// (RFC 9110, section 10.2.3), or 0.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		const day = 24 * 60 * 60
		if seconds > 0 { // false for NaN
			return time.Duration(min(seconds, day) * float64(time.Second))
		}
		return 0
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// withoutURL removes the URL, which may hold a password, from an error of net/http.
func withoutURL(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}

// excerpt returns the beginning of what a server has sent, quoted, for the log.
func excerpt(s string) string {
	const limit = 500
	s = strings.TrimSpace(s)
	if len(s) <= limit {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q and %d bytes more", s[:limit], len(s)-limit)
}

// secretsOf hides what must not appear in errors and logs. Errors of net/http quote what a server has written, which may be
// a secret.
func secretsOf(cfg Config) *plaintext.Redactor {
	secrets := plaintext.NewRedactor(cfg.APIKey)
	if u, err := url.Parse(cfg.BaseURL); err == nil && u.User != nil {
		secrets.Add(cfg.BaseURL)
	}
	return secrets
}
