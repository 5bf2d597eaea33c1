package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxAnswer is how many bytes one answer may have on the wire.
const maxAnswer = 64 << 20

var (
	errHTML    = errors.New("the server sent a web page instead of an answer")
	errNotJSON = errors.New("the server sent something that is no JSON")
	errTooLong = errors.New("the server sent more than 64 MiB")
)

// events is the body of an answer in the one form that go-openai's stream
// reader is sure to read right: lines of "data: ", each with its newline, and
// nothing else. Comments and the other fields of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html) are left
// out, an answer that is not a stream becomes a stream of one chunk, errors
// arrive as chunks, and a stream that ends without [DONE] ends in
// io.ErrUnexpectedEOF.
type events struct {
	body   io.ReadCloser
	rest   *io.LimitedReader // of body
	lines  *bufio.Reader     // of rest
	limits *limits

	begun   bool
	done    bool   // [DONE] was read
	line    []byte // the line being read
	pending []byte // of the line being handed out
	err     error  // what comes after pending
}

func newEvents(body io.ReadCloser, l *limits) *events {
	e := &events{body: body, limits: l}
	e.rest = &io.LimitedReader{R: io.TeeReader(body, ticker{l}), N: maxAnswer}
	e.lines = bufio.NewReader(e.rest)
	return e
}

// ticker takes note of every piece that passes.
type ticker struct{ limits *limits }

func (t ticker) Write(p []byte) (int, error) {
	t.limits.progress()
	return len(p), nil
}

func (e *events) Read(p []byte) (int, error) {
	for len(e.pending) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		if !e.begun {
			e.begun = true
			e.begin()
			continue
		}
		e.next()
	}
	n := copy(p, e.pending)
	e.pending = e.pending[n:]
	return n, nil
}

// Close gives the connection back for reuse when the answer was read whole.
func (e *events) Close() error {
	if e.done {
		e.limits.drain()
		_, _ = io.CopyN(io.Discard, e.lines, 4<<10) // its end, if it comes in time
	}
	return e.body.Close()
}

// begin looks at what kind of answer this is.
func (e *events) begin() {
	if bom, _ := e.lines.Peek(3); string(bom) == "\xef\xbb\xbf" {
		_, _ = e.lines.Discard(len(bom)) // they are there
	}
	for {
		first, err := e.lines.Peek(1)
		switch {
		case err != nil:
			e.err = e.ending(err)
			return
		case bytes.IndexByte([]byte(" \t\r\n"), first[0]) >= 0:
			_, _ = e.lines.Discard(1) // it is there
			continue
		case first[0] == '<':
			e.err = errHTML
		case first[0] == '{' || first[0] == '[':
			e.whole()
		}
		return
	}
}

// whole hands out an answer that is not a stream.
func (e *events) whole() {
	raw, err := io.ReadAll(e.lines)
	if err != nil || e.rest.N <= 0 {
		e.err = e.ending(err)
		return
	}
	e.err = io.EOF
	line := bytes.NewBuffer(e.line[:0])
	line.WriteString("data: ")
	if json.Compact(line, bytes.TrimSpace(raw)) != nil {
		e.err = errNotJSON
		return
	}
	e.pending = append(hideError(line.Bytes()), "\ndata: [DONE]\n"...)
}

// next reads one line, and hands it out if it is one of data.
func (e *events) next() {
	e.line = e.line[:0]
	for {
		piece, err := e.lines.ReadSlice('\n')
		e.line = append(e.line, piece...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			e.err = e.ending(err)
			break
		}
	}
	line := dataLine(bytes.TrimSpace(e.line))
	if line == nil {
		return
	}
	if bytes.Equal(line, []byte("data: [DONE]")) {
		e.done, e.err = true, io.EOF
	}
	e.pending = append(line, '\n')
}

// ending is what the end of the body means before [DONE].
func (e *events) ending(err error) error {
	switch {
	case e.rest.N <= 0:
		return errTooLong
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// dataLine is the line as one of data, nil when it is none.
func dataLine(line []byte) []byte {
	switch {
	case bytes.HasPrefix(line, []byte("data: {")): // as nearly all are
		return hideError(line)
	case bytes.HasPrefix(line, []byte("data:")):
		payload := bytes.TrimSpace(line[len("data:"):])
		if len(payload) == 0 {
			return nil // as good as a comment
		}
		return hideError(append([]byte("data: "), payload...))
	case bytes.HasPrefix(line, []byte("error:")): // older llama.cpp
		payload := bytes.TrimSpace(line[len("error:"):])
		return append(append([]byte(`data: { "error":`), payload...), '}')
	case bytes.HasPrefix(line, []byte("{")): // an error of a proxy in the middle of the stream
		return hideError(append([]byte("data: "), line...))
	}
	return nil
}

// hideError puts a space before the word "error" where it begins a chunk.
// Without it go-openai takes the line as an error by itself, and loses every
// one that is not an object with a message.
func hideError(line []byte) []byte {
	const prefix = `data: {"error"`
	if !bytes.HasPrefix(line, []byte(prefix)) {
		return line
	}
	return append([]byte(`data: { "error"`), line[len(prefix):]...)
}
