package telegram

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

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

var anUpdateID = regexp.MustCompile(`"update_id"\s*:\s*([0-9]{1,18})\b`)

// updateID is the id of the first update in a garbled answer, 0 when it names
// none: then it may be anybody's page, and not Telegram's.
func (e *garbledError) updateID() int64 {
	found := anUpdateID.FindStringSubmatch(e.head)
	if found == nil {
		return 0
	}
	id, _ := strconv.ParseInt(found[1], 10, 64) // 18 digits always fit
	return id
}
