package importer

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"parley/conversation"
)

// Format is a kind of file with conversations.
type Format string

const (
	ChatGPT Format = "chatgpt" // conversations.json, or the .zip with it, of ChatGPT's data export
	JSONL   Format = "jsonl"   // a conversation or a message a line, as for the chat completions API, or an archive
	JSON    Format = "json"    // one document, as gateway sessions export writes it
)

// File is an opened file with conversations.
type File struct {
	size  int64
	parts []part
	close func() error
}

// part is a stretch of the file that is read by itself.
type part struct {
	name   string // name of the part; "" if it is the whole file
	format Format
	open   func() (io.ReadCloser, error)
	files  exportFiles // files of the archive that the part is in
}

// Open opens a file, "-" for standard input. Without a format, how it begins
// says what it is.
func Open(name string, format Format) (*File, error) {
	switch format {
	case "", ChatGPT, JSONL, JSON:
	default:
		return nil, fmt.Errorf("format: found %q, allowed: chatgpt, jsonl, json", format)
	}
	if name == "-" {
		return newFile(io.NopCloser(os.Stdin), 0, format)
	}
	file, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("there is no file %s: name one, or - for standard input", name)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s can't be read: let the user with the id %d read it", name, os.Geteuid())
	case err != nil:
		return nil, err
	}
	opened, err := openFile(file, format)
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return opened, nil
}

func openFile(file *os.File, format Format) (*File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("found a folder, allowed: a file")
	}
	if archive, err := zip.NewReader(file, info.Size()); err == nil {
		return newArchive(archive, file.Close)
	}
	return newFile(file, info.Size(), format)
}

// newFile is a file of one part.
func newFile(file io.ReadCloser, size int64, format Format) (*File, error) {
	in := bufio.NewReaderSize(file, 64<<10)
	if start, _ := in.Peek(len(byteOrderMark)); string(start) == byteOrderMark {
		_, _ = in.Discard(len(byteOrderMark)) // which was read already
	}
	if format == "" {
		var err error
		if format, err = guess(in); err != nil {
			return nil, err
		}
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(in), nil }
	return &File{size: size, parts: []part{{format: format, open: open}}, close: file.Close}, nil
}

// byteOrderMark is what some editors put before UTF-8.
const byteOrderMark = "\uFEFF"

func guess(in *bufio.Reader) (Format, error) {
	start, err := in.Peek(in.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch start = bytes.TrimSpace(start); {
	case len(start) == 0:
		return "", errors.New("found nothing to import")
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return "", errors.New("found a .zip without its end: was it copied or downloaded whole?")
	case start[0] == '[':
		return ChatGPT, nil
	case start[0] == '{' && isDocument(start):
		return JSON, nil
	case start[0] == '{':
		return JSONL, nil
	}
	return "", fmt.Errorf("found %q at the beginning, allowed: ChatGPT's conversations.json or the .zip with it, or JSON lines", start[:min(len(start), 10)])
}

// isDocument reports whether a file that begins so is one JSON document: then its first
// line is no whole object.
func isDocument(start []byte) bool {
	line, _, _ := bytes.Cut(start, []byte("\n"))
	line = bytes.TrimSpace(line)
	return string(line) == "{" || bytes.HasSuffix(line, []byte(`"conversations":[`)) && !json.Valid(line)
}

// conversationFiles are the members of ChatGPT's export that are read; large
// exports have several.
var conversationFiles = regexp.MustCompile(`^conversations(-\d+)?\.json$`)

func newArchive(archive *zip.Reader, close func() error) (*File, error) {
	f := &File{close: close}
	files := newExportFiles(archive)
	for _, member := range archive.File {
		if conversationFiles.MatchString(path.Base(member.Name)) {
			f.parts = append(f.parts, part{name: member.Name, format: ChatGPT, open: member.Open, files: files})
			f.size += int64(member.UncompressedSize64)
		}
	}
	if len(f.parts) == 0 {
		return nil, errors.New("found an archive without conversations.json, allowed: ChatGPT's data export")
	}
	slices.SortFunc(f.parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return f, nil
}

// Reason returns why a file can't be opened, without its path.
func Reason(err error) error {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}

// Size is how many bytes Read will read, 0 when that is not known.
func (f *File) Size() int64 { return f.size }

// Close closes the file.
func (f *File) Close() error { return f.close() }

// Read hands the conversations to take in the order of the file, one in memory
// at a time. Broken ones are handed over too, with their error, and the next one
// follows. The error is that of take, or says where the rest can't be read.
// progress is told how many bytes were read.
func (f *File) Read(key conversation.Key, now time.Time, progress func(bytes int), take func(Entry) error) error {
	for _, p := range f.parts {
		if err := p.read(key, now, progress, take); err != nil {
			return err
		}
	}
	return nil
}

func (p part) read(key conversation.Key, now time.Time, progress func(int), take func(Entry) error) error {
	file, err := p.open()
	if err != nil {
		return err
	}
	defer file.Close()
	in := &counted{file, progress}
	named := func(e Entry) error {
		if p.name != "" {
			e.Place = p.name + ", " + e.Place
		}
		return take(e)
	}
	switch p.format {
	case JSONL:
		err = readLines(in, key, now, named)
	case JSON:
		err = readDocument(in, key, now, named)
	default:
		err = readChatGPT(in, key, now, p.files, named)
	}
	if err != nil && p.name != "" {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return err
}

// counted tells how much was read.
type counted struct {
	io.Reader
	progress func(bytes int)
}

func (c *counted) Read(p []byte) (n int, err error) {
	n, err = c.Reader.Read(p)
	c.progress(n)
	return n, err
}
