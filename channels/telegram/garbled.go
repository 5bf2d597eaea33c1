package telegram

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
)

// body reads a response. It remembers how the response begins and whether the
// connection broke. Close reads it to its end, so that the connection can be used
// again.
type body struct {
	io.ReadCloser
	status string
	head   []byte // the first bytes of the answer, at most maxHead
	broke  bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.head = append(b.head, p[:min(n, maxHead-len(b.head))]...)
	b.broke = b.broke || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

func (b *body) Close() error {
	io.CopyN(io.Discard, b.ReadCloser, maxDrain)
	return b.ReadCloser.Close()
}

// classify returns a *garbledError for a response that arrived whole and can't be
// read, and err for any other failure. b is nil when no response came.
func (b *body) classify(err error) error {
	var refused *tgbotapi.Error
	if b == nil || b.broke || errors.As(err, &refused) {
		return err
	}
	return &garbledError{status: b.status, head: string(b.head), err: err}
}

// garbledError says that a response arrived whole and is not the API's JSON.
type garbledError struct {
	status string // of HTTP
	head   string // how the answer begins
	err    error
}

func (e *garbledError) Error() string {
	return fmt.Sprintf("answered %s with what can't be read (%v): %.200q", e.status, e.err, e.head)
}

func (e *garbledError) Unwrap() error { return e.err }

// updateID returns the id of the first update in a garbled response. It returns 0, so that nothing
// is skipped, when the id is not certain: the response may come from another server, or the number
// may be cut off.
func (e *garbledError) updateID() int64 {
	d := json.NewDecoder(strings.NewReader(e.head))
	d.UseNumber()
	if !enter(d, '{', "result") || !enter(d, '[', "") || !enter(d, '{', "update_id") {
		return 0
	}
	token, err := d.Token()
	number, is := token.(json.Number)
	if err != nil || !is || d.InputOffset() == int64(len(e.head)) { // where the head ends, the number may not
		return 0
	}
	id, err := number.Int64()
	if err != nil || id < 0 || id > maxUpdateID {
		return 0
	}
	return id
}

// enter reads the beginning of an object or a list, and in an object everything
// up to the value of a key. It returns false when something else stands there.
func enter(d *json.Decoder, delim json.Delim, key string) bool {
	if token, err := d.Token(); err != nil || token != delim {
		return false
	}
	for key != "" {
		name, err := d.Token()
		if err != nil || name == json.Delim('}') {
			return false
		}
		if name == key {
			return true
		}
		var other json.RawMessage
		if d.Decode(&other) != nil {
			return false
		}
	}
	return true
}
