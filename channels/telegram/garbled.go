package telegram

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
)

// body is an answer that is being read. It remembers how the answer begins and
// whether the connection broke, and is read to its end before it is closed, so
// that the connection can be used again.
type body struct {
	io.ReadCloser
	status string
	head   []byte // at most maxHead
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

// blame tells an answer that can't be read from a connection that failed. b is
// nil when no answer came.
func (b *body) blame(err error) error {
	var refused *tgbotapi.Error
	if b == nil || b.broke || errors.As(err, &refused) {
		return err
	}
	return &garbledError{status: b.status, head: string(b.head), err: err}
}

// garbledError is an answer that arrived whole and is not the API's JSON.
type garbledError struct {
	status string // of HTTP
	head   string // how the answer begins
	err    error
}

func (e *garbledError) Error() string {
	return fmt.Sprintf("answered %s with what can't be read (%v): %.200q", e.status, e.err, e.head)
}

func (e *garbledError) Unwrap() error { return e.err }

// updateID is the id of the first update in a garbled answer, 0 when that can't
// be told: then the answer may be anybody's page, and not Telegram's, or the id
// may be another update's, and nothing is skipped by it.
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

// enter reads the beginning of an object or a list, and of an object all up to
// the value of a key. It reports whether that is what stands there.
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
