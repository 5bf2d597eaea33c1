package filepages

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"parley/conversation/internal/blobs"
	"parley/conversation/internal/db"
)

const (
	// Size is the size of a page of a file's text in bytes.
	Size = 12 << 10

	// InMessage is how many bytes of a file's text a message holds, at most.
	InMessage = 256 << 10

	// overlap is how many bytes of the next page are added to a page, so that a phrase that
	// begins on one page and ends on the next is found.
	overlap = 256
)

// Text is the text of a file. It is not safe for concurrent use.
type Text struct {
	io.ReaderAt
	Size  int64 // in bytes
	close func() error
}

// errNoText says that a file has no text in UTF-8, or that its text was not extracted yet.
var errNoText = errors.New("the file has no text")

// Open opens the text of a blob: the text that was extracted from it, or else its bytes if they
// are text. It can be read until ctx ends. database is the path or URL of the database.
func Open(ctx context.Context, q db.Querier, database string, blob int64) (*Text, error) {
	var made []byte
	err := q.QueryRowContext(ctx, `SELECT data FROM blob_forms WHERE blob_id = ? AND form = 'text'`, blob).Scan(&made)
	if err == nil {
		return &Text{bytes.NewReader(made), int64(len(made)), func() error { return nil }}, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	b, err := blobs.Scan(q.QueryRowContext(ctx, blobs.Select+`WHERE b.id = ?`, blob))
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(b.MediaType, "text/") {
		return nil, errNoText
	}
	reader, err := blobs.Open(ctx, q, database, b)
	if err != nil {
		return nil, err
	}
	return &Text{reader, b.Size, reader.Close}, nil
}

// Close closes the file of the text, if there is one.
func (t *Text) Close() error { return t.close() }

// Pages returns how many pages the text has.
func (t *Text) Pages() int64 { return (t.Size + Size - 1) / Size }

// Page returns the page n, from 0 to Pages()-1, and the beginning of the next one. A page that the text does not have is an
// error: the index may still have pages of a text that was longer.
func (t *Text) Page(n int64) (string, error) {
	if n < 0 || n >= t.Pages() {
		return "", fmt.Errorf("there is no page %d of %d", n, t.Pages())
	}
	page := make([]byte, min(Size+overlap, t.Size-n*Size))
	read, err := t.ReadAt(page, n*Size)
	if err != nil && err != io.EOF {
		return "", err
	}
	page = page[:read]
	if bytes.IndexByte(page, 0) >= 0 { // the text is not in UTF-8
		return "", errNoText
	}
	for len(page) > 0 && !utf8.RuneStart(page[0]) { // the character begins on the previous page
		page = page[1:]
	}
	return strings.ToValidUTF8(string(page), " "), nil
}

// unheld returns the first page that is not completely in a message that holds the first held
// bytes of the text.
func (t *Text) unheld(held int64) int64 {
	if held > 0 && t.Size <= InMessage {
		return t.Pages() // the message has all of it
	}
	return min(held, InMessage) / Size
}
