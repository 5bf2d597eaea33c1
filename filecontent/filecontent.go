// Package filecontent reads what the files of messages say: texts, documents and
// recordings as text, and pictures in a form that models take. What costs time is made
// once and kept with the file. It never reads more into memory than its limits say.
package filecontent

import (
	"bytes"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/conversation/files"
	"parley/conversation/media"
	"parley/filecontent/document"
)

// Reader reads the files of a store.
type Reader struct {
	files       *files.Files
	documents   document.Extractor
	transcriber Transcriber // nil: recordings can't be read
}

// Option changes how New makes a Reader.
type Option func(*Reader)

// WithDocuments makes the reader read documents, by a command as document.Extractor
// has it. Without it they can't be read.
func WithDocuments(command ...string) Option {
	return func(r *Reader) { r.documents.Command = command }
}

// New returns a reader.
func New(kept *files.Files, options ...Option) *Reader {
	r := &Reader{files: kept}
	for _, option := range options {
		option(r)
	}
	return r
}

// Kind says what a file is.
type Kind int

const (
	Other     Kind = iota
	Text           // text in UTF-8, or in another encoding that is recognised
	Picture        // a picture of a type that models take
	Document       // a file whose text is extracted: a PDF, or what office programs write
	Recording      // speech, music, or a film with sound
)

// KindOf returns what a file is. Its bytes say that, not its name or what its sender
// says of it.
func KindOf(file files.File) Kind {
	switch {
	case media.IsImageType(file.MediaType):
		return Picture
	case strings.HasPrefix(file.MediaType, "text/"):
		return Text
	case file.MediaType == "application/pdf", file.MediaType == "application/zip" && isOfficeName(file.Name):
		return Document
	case extensions[file.MediaType] != "":
		return Recording
	}
	return Other
}

// IsFalsePicture reports whether a file has the name of a picture that models take, or was sent
// as one, while its bytes show no picture of any kind.
func IsFalsePicture(file files.File) bool {
	if strings.HasPrefix(file.MediaType, "image/") {
		return false
	}
	declared, _, _ := strings.Cut(file.Declared, ";")
	return media.IsImageType(strings.TrimSpace(declared)) ||
		slices.Contains([]string{".png", ".jpg", ".jpeg", ".webp", ".gif"}, strings.ToLower(path.Ext(file.Name)))
}

// isOfficeName reports whether a name is that of an office document. These are archives,
// and others with the same first bytes are none.
func isOfficeName(name string) bool {
	return slices.Contains([]string{".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp"}, strings.ToLower(path.Ext(name)))
}

// Problem says why a file can't be read, in words for the user and the model.
type Problem struct{ Words string }

func (p *Problem) Error() string { return p.Words }

// Content is the text of a file. It is read from any place, but not by several
// goroutines at once.
type Content struct {
	io.ReaderAt
	Size int64 // bytes

	close func() error
}

// Close releases what the content holds open.
func (c *Content) Close() error {
	if c.close == nil {
		return nil
	}
	return c.close()
}

// notText says of a file that nothing here can read it.
var notText = &Problem{"it is no text"}

// Text opens the text of a file. A *Problem says why it has none, a *Delay why it can't
// be read now. The content is read until ctx ends.
func (r *Reader) Text(ctx context.Context, file files.File) (*Content, error) {
	switch KindOf(file) {
	case Text:
		return r.text(ctx, file)
	case Document:
		return r.document(ctx, file)
	case Recording:
		return r.recording(ctx, file)
	}
	return nil, notText
}

// text opens a file that is text as it is, or in another encoding than UTF-8.
func (r *Reader) text(ctx context.Context, file files.File) (*Content, error) {
	if form, made, err := r.files.Form(ctx, file, files.FormText); made || err != nil {
		return contentOf(form), err
	}
	opened, err := r.files.Open(ctx, file)
	if err != nil {
		return nil, err
	}
	head := make([]byte, min(file.Size, 64<<10))
	if _, err := opened.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, firstOf(err, opened.Close())
	}
	if isUTF8(head) {
		return &Content{opened, file.Size, opened.Close}, nil
	}
	defer opened.Close()
	return r.decode(ctx, file, opened, head)
}

// contentOf returns the text that was made of a file.
func contentOf(form files.Form) *Content {
	return &Content{ReaderAt: bytes.NewReader(form.Data), Size: int64(len(form.Data))}
}

// whole cuts off a character whose rest is missing at the end.
func whole(text []byte) []byte {
	for n := 1; n <= min(utf8.UTFMax, len(text)); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return text[:at]
			}
			break
		}
	}
	return text
}

// ReadPart reads a part of the text, at most limit bytes from the byte at on, and no
// half character at its end.
func (c *Content) ReadPart(at int64, limit int) (string, error) {
	if at >= c.Size {
		return "", nil
	}
	part := make([]byte, min(int64(limit), c.Size-at))
	n, err := c.ReadAt(part, at)
	if err != nil && err != io.EOF {
		return "", err
	}
	return strings.ToValidUTF8(string(whole(part[:n])), "\uFFFD"), nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// ReadPage reads a page, numbered from 0, of so many bytes. A character that stands on
// two pages is part of the first.
func (c *Content) ReadPage(page int64, bytes int) (string, error) {
	from, err := c.start(page * int64(bytes))
	if err != nil {
		return "", err
	}
	to, err := c.start((page + 1) * int64(bytes))
	if err != nil {
		return "", err
	}
	return c.ReadPart(from, int(to-from))
}

// start returns where the first character begins at a byte or behind it.
func (c *Content) start(at int64) (int64, error) {
	if at >= c.Size {
		return c.Size, nil
	}
	next := make([]byte, min(utf8.UTFMax, c.Size-at))
	if _, err := c.ReadAt(next, at); err != nil && err != io.EOF {
		return 0, err
	}
	for i, b := range next {
		if at == 0 || utf8.RuneStart(b) {
			return at + int64(i), nil
		}
	}
	if at+int64(len(next)) == c.Size { // the rest of the last character
		return c.Size, nil
	}
	return at, nil
}
