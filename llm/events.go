package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// maxAnswer is the most bytes that one answer may have on the wire.
const maxAnswer = 64 << 20

var (
	errHTML    = errors.New("the server sent a web page instead of an answer")
	errNotJSON = errors.New("the server sent something that is no JSON")
	errTooLong = errors.New("the server sent more than 64 MiB")
)

// events converts the body of an answer to the one form that go-openai's stream reader
// reads correctly: lines of "data: ", each with a whole chunk and a newline, and
// nothing else. It reads server-sent events by their standard
// (https://html.spec.whatwg.org/multipage/server-sent-events.html), and also what
// servers send against it: events without an empty line between them, errors outside
// of events, and an answer that is not a stream, which becomes a stream of one chunk.
// A stream that ends without [DONE] ends with io.ErrUnexpectedEOF.
type events struct {
	body   io.ReadCloser
	rest   *io.LimitedReader // reads body up to maxAnswer bytes
	lines  *bufio.Reader     // reads rest line by line
	limits *limits

	begun   bool
	done    bool   // [DONE] was read
	line    []byte // the line being read
	afterCR bool   // the previous line ended with a CR; an LF now belongs to it
	name    string // name of the event being read; "" if it has none
	data    []byte // data of the event being read that is not handed out yet
	out     []byte // lines for go-openai
	pending []byte // the part of out that is not read yet
	err     error  // returned after pending
}

func newEvents(body io.ReadCloser, l *limits) *events {
	e := &events{body: body, limits: l}
	e.rest = &io.LimitedReader{R: io.TeeReader(body, ticker{l}), N: maxAnswer}
	e.lines = bufio.NewReader(e.rest)
	return e
}

// ticker reports every piece that passes as progress.
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
		e.out = e.out[:0]
		if e.begun {
			e.next()
		} else {
			e.begun = true
			e.begin()
		}
		e.pending = e.out
	}
	n := copy(p, e.pending)
	e.pending = e.pending[n:]
	return n, nil
}

// Close returns the connection for reuse when the whole answer was read.
func (e *events) Close() error {
	if e.done {
		e.limits.drain()
		_, _ = io.CopyN(io.Discard, e.lines, 4<<10) // the end of the body, if it arrives in time
	}
	return e.body.Close()
}

// begin finds out what kind of answer this is.
func (e *events) begin() {
	if bom, _ := e.lines.Peek(3); string(bom) == "\xef\xbb\xbf" {
		_, _ = e.lines.Discard(len(bom)) // cannot fail: they are buffered
	}
	for {
		first, err := e.lines.Peek(1)
		switch {
		case err != nil:
			e.err = e.ending(err)
			return
		case bytes.IndexByte([]byte(" \t\r\n"), first[0]) >= 0:
			_, _ = e.lines.Discard(1) // cannot fail: it is buffered
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
	var chunk bytes.Buffer
	if json.Compact(&chunk, raw) != nil {
		e.err = errNotJSON
		return
	}
	e.handOut(chunk.Bytes())
	e.out = append(e.out, "data: [DONE]\n"...)
}

// next reads one line, and hands out the chunk that it completes, if any.
func (e *events) next() {
	if err := e.readLine(); err != nil {
		if e.err = e.ending(err); e.err == errTooLong {
			return // in the middle of an event, which is dropped
		}
		if len(e.line) == 0 {
			e.endEvent()
			return
		}
	}
	line := bytes.TrimSpace(e.line)
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch {
	case len(line) == 0:
		e.endEvent()
		e.name = ""
	case string(field) == "data":
		e.addData(value)
	case string(field) == "event":
		e.name = string(value)
	case string(field) == "error": // older llama.cpp
		e.handOut(asError(value))
	case line[0] == '{': // an error of a proxy in the middle of the stream
		e.handOut(line)
	}
	if e.err != nil && !e.done {
		e.endEvent() // no empty line will come
	}
}

// readLine reads a line that ends with CR, LF or both. After an error, line holds what
// was read before it.
func (e *events) readLine() error {
	e.line = e.line[:0]
	for {
		if _, err := e.lines.Peek(1); err != nil {
			return err
		}
		read, _ := e.lines.Peek(e.lines.Buffered()) // cannot fail: it is buffered
		if e.afterCR && read[0] == '\n' {
			e.afterCR = false
			_, _ = e.lines.Discard(1)
			continue
		}
		end := bytes.IndexAny(read, "\r\n")
		e.afterCR = end >= 0 && read[end] == '\r'
		if end < 0 {
			e.line = append(e.line, read...)
			_, _ = e.lines.Discard(len(read))
			continue
		}
		e.line = append(e.line, read[:end]...)
		_, _ = e.lines.Discard(end + 1)
		return nil
	}
}

// addData adds a line of data to the event. It hands out a line that is a whole chunk
// without waiting for the empty line after it, which some servers leave out.
func (e *events) addData(value []byte) {
	switch {
	case string(value) == "[DONE]":
		e.endEvent()
		e.out = append(e.out, "data: [DONE]\n"...)
		e.done, e.err = true, io.EOF
	case len(e.data) == 0 && len(value) == 0: // to be ignored like a comment
	case len(e.data) == 0 && json.Valid(value):
		e.handOut(value)
	default:
		e.data = append(append(e.data, value...), '\n')
	}
}

// endEvent hands out the event that was read line by line.
func (e *events) endEvent() {
	if len(e.data) == 0 {
		return
	}
	data := e.data
	e.data = nil
	var chunk bytes.Buffer
	if json.Compact(&chunk, data) == nil {
		data = chunk.Bytes()
	}
	e.handOut(bytes.ReplaceAll(bytes.TrimSpace(data), []byte("\n"), []byte(" "))) // an error about invalid JSON quotes it in one line
}

// handOut makes a chunk the next line for go-openai. It puts a space before "error"
// where that begins the chunk: else go-openai would take the line for an error of its
// own, and drop it unless it is an object with a message.
func (e *events) handOut(chunk []byte) {
	if e.name == "error" && !bytes.Contains(chunk, []byte(`"error"`)) {
		chunk = asError(chunk)
	}
	e.out = append(e.out, "data: "...)
	if rest, found := bytes.CutPrefix(chunk, []byte(`{"error"`)); found {
		e.out = append(e.out, `{ "error"`...)
		chunk = rest
	}
	e.out = append(append(e.out, chunk...), '\n')
}

// asError returns a chunk with an error as a server has written it.
func asError(value []byte) []byte {
	if !json.Valid(value) {
		value, _ = json.Marshal(string(value)) // a string: cannot fail
	}
	return slices.Concat([]byte(`{"error":`), value, []byte(`}`))
}

// ending returns the error for a body that ends before [DONE].
func (e *events) ending(err error) error {
	switch {
	case e.rest.N <= 0:
		return errTooLong
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}
