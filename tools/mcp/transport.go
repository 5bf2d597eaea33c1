package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage is the longest message that is read of a server.
const maxMessage = 16 << 20

var errTooLong = fmt.Errorf("it sent a message of more than %d MiB", maxMessage>>20)

// lines passes on what a server writes, message by message, without lines that are none:
// some servers greet on standard output.
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
		Transport:     &withHeaders{c.Headers},
		CheckRedirect: sameHost,
	}}
}

// sameHost refuses redirects to another server, which would get the headers.
func sameHost(next *http.Request, before []*http.Request) error {
	if first := before[0].URL; next.URL.Host != first.Host || next.URL.Scheme != first.Scheme || len(before) > 5 {
		return fmt.Errorf("it redirects to %s", next.URL.Host)
	}
	return nil
}

// withHeaders adds the configured headers to requests, and bounds the answers.
type withHeaders struct{ headers map[string]string }

func (t *withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range t.headers {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost {
		response.Body = &bounded{response.Body, maxMessage}
	}
	return response, err
}

// bounded is a body that fails when it is too long.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
