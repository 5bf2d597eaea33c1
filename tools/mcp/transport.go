package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage is the longest message that is read of a server.
const maxMessage = 16 << 20

var errTooLong = fmt.Errorf("it sent a message of more than %d MiB", maxMessage>>20)

// lines passes on what a server writes, message by message, without lines that are none:
// some servers greet on standard output. A message that can't be read ends the connection.
type lines struct {
	io.Closer
	from *bufio.Reader
	line []byte // the rest of the current line
	err  error  // the error that the next Read returns
}

func newLines(from io.ReadCloser) *lines {
	return &lines{Closer: from, from: bufio.NewReaderSize(from, 64<<10)}
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.line) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		l.line, l.err = l.next()
		if trimmed := bytes.TrimSpace(l.line); len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' || !json.Valid(trimmed) {
			if bytes.HasPrefix(trimmed, []byte("{")) && bytes.Contains(trimmed, []byte(`"jsonrpc"`)) {
				l.err = errUnreadable
			}
			l.line = nil
		}
	}
	n := copy(p, l.line)
	l.line = l.line[n:]
	return n, nil
}

// next reads a line with its end.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		piece, err := l.from.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > maxMessage:
			return nil, errTooLong
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// webTransport returns the transport of a server at an address.
func webTransport(c Config) sdk.Transport {
	return &sdk.StreamableClientTransport{Endpoint: c.URL, MaxRetries: 2, HTTPClient: &http.Client{
		Transport:     &withHeaders{headers: c.Headers},
		CheckRedirect: sameHost,
	}}
}

var errRedirected = errors.New("it redirects")

// sameHost refuses redirects to another server, which would get the headers.
func sameHost(next *http.Request, before []*http.Request) error {
	if first := before[0].URL; next.URL.Host != first.Host || next.URL.Scheme != first.Scheme || len(before) > 5 {
		return fmt.Errorf("%w to %s", errRedirected, next.URL.Host)
	}
	return nil
}

// withHeaders adds the configured headers to requests, and bounds the answers.
type withHeaders struct {
	headers map[string]string
	replies atomic.Int64 // answers to requests of the server that are being sent
}

func (t *withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range t.headers {
		r.Header.Set(name, value)
	}
	call, isReply := sentBy(r)
	if isReply {
		t.replies.Add(1)
		defer t.replies.Add(-1)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && (r.Method == http.MethodPost || r.Method == http.MethodGet) {
		response.Body = &bounded{ReadCloser: response.Body, eachEvent: r.Method == http.MethodGet, replies: &t.replies}
	}
	if err == nil && call != nil && response.StatusCode == http.StatusOK {
		kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
		response.Body = &answerBody{ReadCloser: response.Body, from: bufio.NewReader(response.Body), call: call, isStream: kind == "text/event-stream"}
	}
	return response, err
}

// sentBy returns the ID of the call that a request carries, and whether it carries the answer to a request of the server.
func sentBy(r *http.Request) (call json.RawMessage, isReply bool) {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return nil, false
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, false
	}
	defer body.Close()
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(body).Decode(&message) != nil || message.Method == "" {
		return nil, true
	}
	return message.ID, false
}

// bounded is a body that fails when it is too long, and when the server has asked more than is
// answered. A stream of events may go on for ever; each of its events may not.
type bounded struct {
	io.ReadCloser
	eachEvent bool
	replies   *atomic.Int64
	read      int  // bytes of the body, or of the event
	newLine   bool // the line has no characters yet: at its end, the event is over
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.replies.Load() > maxAsked {
		return 0, errAsksTooMuch
	}
	n, err := b.ReadCloser.Read(p)
	for _, char := range p[:n] {
		b.read++
		switch {
		case char == '\n' && b.newLine && b.eachEvent:
			b.read = 0
		case char == '\n':
			b.newLine = true
		case char != '\r':
			b.newLine = false
		}
	}
	if b.read > maxMessage {
		return 0, errTooLong
	}
	return n, err
}
