package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The library ends the connection, or lets the call wait, when it can't read an answer. So an error that says why takes the
// place of such an answer: it ends its own call at once, and the connection goes on for the others.

// codeUnreadable is the code of these errors. It is none that the protocol uses.
const codeUnreadable = -32099

// maxSkipped is the longest line that is skipped. A longer one ends the connection.
const maxSkipped = 64 * maxMessage

var (
	errNoMessage = errors.New("it sent a message that can't be read, or that nests too deep")
	errCut       = errors.New("request terminated without response") // as the library says it, see isBroken
)

// unreadable returns the answer to a call in place of one that can't be read.
func unreadable(call json.RawMessage, why error) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`+"\n", call, codeUnreadable, why.Error())
}

// outline is a JSON object of any size and depth, with null in place of the objects and lists in it. It keeps little memory.
type outline struct {
	text              []byte
	depth             int
	inString, escaped bool
}

// add adds the next piece of the object.
func (o *outline) add(piece []byte) {
	for _, c := range piece {
		wasDeep := o.depth > 1
		switch {
		case o.escaped:
			o.escaped = false
		case o.inString:
			o.escaped, o.inString = c == '\\', c != '"'
		case c == '"':
			o.inString = true
		case c == '{' || c == '[':
			if o.depth++; o.depth == 2 {
				o.text = append(o.text, "null"...)
			}
		case c == '}' || c == ']':
			o.depth--
		}
		if !wasDeep && o.depth <= 1 && len(o.text) < 4<<10 {
			o.text = append(o.text, c)
		}
	}
}

// unreadable returns the answer that takes the place of the object, nil if that is no answer to a call.
func (o *outline) unreadable(why error) []byte {
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(o.text, &message) != nil || message.ID == nil || message.Method != "" {
		return nil
	}
	return unreadable(message.ID, why)
}

// answerBody is the body of the answer to a call over HTTP: a message, or a stream of events with messages.
type answerBody struct {
	io.ReadCloser
	from     *bufio.Reader
	call     json.RawMessage // ID of the call
	isStream bool
	rest     []byte // the rest of what next has returned
	err      error  // the error that follows it
}

func (b *answerBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if b.isStream {
			b.rest, b.err = b.nextEvent()
		} else {
			b.rest, b.err = b.message()
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// message returns the whole body.
func (b *answerBody) message() ([]byte, error) {
	body, err := io.ReadAll(b.from)
	switch {
	case errors.Is(err, errTooLong), errors.Is(err, errAsksTooMuch):
		return unreadable(b.call, err), io.EOF
	case err != nil:
		return unreadable(b.call, errCut), io.EOF
	case !isMessage(body):
		return unreadable(b.call, errNoMessage), io.EOF
	}
	return body, io.EOF
}

// nextEvent returns the next event with the empty line that ends it.
func (b *answerBody) nextEvent() (event []byte, err error) {
	instead := func(why error) ([]byte, error) {
		return append(append([]byte("data: "), unreadable(b.call, why)...), '\n'), io.EOF
	}
	var data []byte
	isOther := false // the event is none of the protocol
	for {
		line, err := b.from.ReadBytes('\n')
		if errors.Is(err, errTooLong) || errors.Is(err, errAsksTooMuch) {
			return instead(err)
		}
		event = append(event, line...)
		name, value, isField := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		switch {
		case string(name) == "data":
			data = append(append(data, value...), '\n')
		case string(name) == "event":
			isOther = string(bytes.TrimSpace(value)) != "message"
		case !isField && len(name) > 0:
			return instead(errNoMessage)
		}
		if err == nil && (len(name) > 0 || isField) {
			continue
		}
		if data = bytes.TrimSpace(data); len(data) > 0 && !isOther && !isMessage(data) && (err == nil || errors.Is(err, io.EOF)) {
			return instead(errNoMessage)
		}
		return event, err
	}
}

// isMessage reports whether the library reads a text as a message. It nests no deeper than readers of JSON take.
func isMessage(text []byte) bool {
	if !json.Valid(text) {
		return false
	}
	_, err := jsonrpc.DecodeMessage(text)
	return err == nil
}
