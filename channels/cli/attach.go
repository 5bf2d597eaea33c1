package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"parley/conversation"
	"parley/conversation/files"
)

// AttachCommand is the word that sends a file: "/attach FILE what it is".
const AttachCommand = "/attach"

// Files keeps the files that are sent until a run has read them. hosted.Uploads does.
type Files interface {
	Put(ctx context.Context, key conversation.Key, name, mediaType string, data []byte) (conversation.Attachment, error)
	Fetch(ctx context.Context, file conversation.Attachment) (io.ReadCloser, error)
}

// Fetch opens a file that came with a message.
func (c *Channel) Fetch(ctx context.Context, file conversation.Attachment) (io.ReadCloser, error) {
	if c.files == nil {
		return nil, &files.GoneError{Words: "it was sent from another terminal"}
	}
	return c.files.Fetch(ctx, file)
}

// attach adds the files to a message that its line names: behind AttachCommand, or at
// its beginning, as terminals write the paths of files that are dropped into them.
func (c *Channel) attach(ctx context.Context, in *conversation.Inbound) error {
	if c.files == nil {
		return nil
	}
	paths, words, asked := dropped(in.Text)
	if asked && len(paths) == 0 {
		return errors.New("there is no file to send: write /attach FILE")
	}
	if len(paths) == 0 {
		return nil
	}
	for _, path := range paths {
		data, err := readFile(path)
		if err != nil {
			return err
		}
		attachment, err := c.files.Put(ctx, c.key, filepath.Base(path), mediaTypeOf(data), data)
		if err != nil {
			return err
		}
		in.Attachments = append(in.Attachments, attachment)
	}
	in.Text, in.NeverCommand = words, true
	return nil
}

func mediaTypeOf(data []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
	return kind
}

// readFile reads a file that is to be sent.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no file %s", path)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	case info.Size() == 0:
		return nil, fmt.Errorf("%s is empty", path)
	case info.Size() > files.MaxSize:
		return nil, fmt.Errorf("%s has %s, and at most %s can be sent", path, files.Size(info.Size()), files.Size(files.MaxSize))
	}
	return os.ReadFile(path)
}

// dropped returns the files at the beginning of a line, and the words behind them. With
// AttachCommand, asked is true and the first word is a file whether it exists or not;
// else only absolute paths of files that exist count.
func dropped(line string) (paths []string, words string, asked bool) {
	rest := strings.TrimSpace(line)
	if behind, found := strings.CutPrefix(rest, AttachCommand); found && (behind == "" || strings.TrimLeft(behind, " \t\n") != behind) {
		asked, rest = true, strings.TrimSpace(behind)
	}
	for rest != "" {
		word, behind := shellWord(rest)
		path := pathOf(word)
		if !(asked && len(paths) == 0) && !isFile(path) {
			break
		}
		paths, rest = append(paths, path), strings.TrimSpace(behind)
	}
	return paths, rest, asked
}

// pathOf returns the path that a word names: as it is, below the home folder, or as a
// file: address.
func pathOf(word string) string {
	if u, err := url.Parse(word); err == nil && u.Scheme == "file" {
		return u.Path
	}
	if below, found := strings.CutPrefix(word, "~/"); found {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, below)
		}
	}
	return word
}

// isFile reports whether a path is an absolute one of a file that exists.
func isFile(path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// shellWord returns the first word of a line, with quotes and backslashes as a shell
// reads them, and what stands behind it.
func shellWord(line string) (word, rest string) {
	var b strings.Builder
	quote := rune(0)
	escaped := false
	for i, r := range line {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			return b.String(), line[i:]
		default:
			b.WriteRune(r)
		}
	}
	return b.String(), ""
}
