package hosted

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strings"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/plaintext"
)

// What a message may have.
const (
	MaxText  = 256 << 10 // characters; a longer text is a file
	MaxFiles = 10

	// Where files come as base64 in JSON, which is held in memory.
	MaxFile = 8 << 20  // bytes of a file
	MaxBody = 24 << 20 // bytes of a request with files
)

// Uploads keeps the files that come with messages until a run has read them.
type Uploads struct {
	Store *conversation.Store
	Log   *slog.Logger
	Most  int64 // bytes that a file may have
}

// MaxFile returns how many bytes a file may have.
func (u Uploads) MaxFile() int64 { return u.Most }

// Put stores a file as it is read, and returns it as the attachment of an inbound of the
// session. See [MediaType] for the declared one. The errors are those of files.Put.
func (u Uploads) Put(ctx context.Context, key conversation.Key, name, declared string, body io.Reader) (media.Attachment, error) {
	const sniffed = 512 // bytes that http.DetectContentType looks at
	buffered := bufio.NewReaderSize(body, sniffed)
	head, _ := buffered.Peek(sniffed) // an error comes again when it is read
	mediaType := MediaType(declared, head)
	ref, size, err := files.New(u.Store).Put(ctx, files.Upload{Key: key, Name: name, MediaType: mediaType, Body: buffered, Most: u.Most})
	return media.Attachment{Name: name, MediaType: mediaType, Size: size, Ref: ref}, err
}

// Fetch opens a file that came with a message, as channels.Fetcher has it.
func (u Uploads) Fetch(ctx context.Context, file media.Attachment) (io.ReadCloser, error) {
	upload, err := files.New(u.Store).OpenUpload(ctx, file.Ref)
	switch {
	case errors.Is(err, files.ErrNotFound):
		return nil, &files.GoneError{Words: "it is no longer there"}
	case err != nil:
		u.Log.Error("uploaded file not readable", "file", file.Ref, "error", err)
		return nil, errors.New("it can't be read")
	}
	return upload, nil
}

// MediaType returns the media type of a file: of a picture the one that its bytes
// show, else the one that was declared, and of a file without one what its bytes show.
func MediaType(declared string, data []byte) string {
	found, _, _ := strings.Cut(http.DetectContentType(data), ";")
	if media.IsImageType(found) {
		return found
	}
	if kind, _, err := mime.ParseMediaType(declared); err == nil && !media.IsImageType(kind) {
		return kind
	}
	return found
}

// FileName returns the last element of a path of any system, as plaintext.OneLine
// returns it, and "" when nothing is left.
func FileName(name string) string {
	name = plaintext.OneLine(strings.ToValidUTF8(name, ""))
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	if name == "." || name == ".." || name == "/" {
		return ""
	}
	return name
}
