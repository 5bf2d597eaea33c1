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

// codeUnreadable is the code of the errors that take the place of unreadable answers. The protocol does not use it.
const codeUnreadable = -32099

var errUnreadable = errors.New("it sent a message that can't be read, or that nests too deep")

// answerBody is the body of the answer to a call over HTTP: a message, or a stream of events with messages. The library ends the
// whole connection, or lets the call wait, when it can't read one. So answerBody returns an error with the ID of the call in its place.
type answerBody struct {
	io.ReadCloser
	from     *bufio.Reader
	call     json.RawMessage // ID of the call
	isStream bool
	rest     []byte // the rest of what next has returned
	err      error  // the error that follows it
}

func (b *answerBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 && b.err == nil {
		b.rest, b.err = b.next()
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) > 0 {
		return n, nil
	}
	return n, b.err
}

// next returns the whole message, or the next event of a stream with the empty line that ends it.
func (b *answerBody) next() ([]byte, error) {
	var text, data []byte
	isOther := false // the event has a name that the protocol does not use
	for {
		line, err := b.from.ReadBytes('\n')
		text = append(text, line...)
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case errors.Is(err, errTooLong), errors.Is(err, errAsksTooMuch):
			return b.instead(err), io.EOF
		case !b.isStream:
			data = text
		case string(field) == "data":
			data = append(append(data, value...), '\n')
		case string(field) == "event":
			isOther = string(bytes.TrimSpace(value)) != "message"
		}
		if err == nil && (!b.isStream || len(line) > 0) {
			continue
		}
		data = bytes.TrimSpace(data)
		isWhole := err == nil || errors.Is(err, io.EOF)
		if isWhole && !isOther && (len(data) > 0 || !b.isStream) && !isMessage(data) {
			return b.instead(errUnreadable), io.EOF
		}
		return text, err
	}
}

// instead returns the error that takes the place of an unreadable answer.
func (b *answerBody) instead(why error) []byte {
	prefix := ""
	if b.isStream {
		prefix = "data: "
	}
	return fmt.Appendf(nil, "%s"+`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`+"\n\n", prefix, b.call, codeUnreadable, why.Error())
}

// isMessage reports whether the library can read a text as a message. encoding/json refuses what nests too deep.
func isMessage(text []byte) bool {
	_, err := jsonrpc.DecodeMessage(text)
	return err == nil && json.Valid(text)
}
