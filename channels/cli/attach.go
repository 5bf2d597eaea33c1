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
	"parley/conversation/media"
)

// AttachCommand is the word that sends a file: "/attach FILE what it is".
const AttachCommand = "/attach"

// Files keeps the files that are sent until a run has read them. hosted.Uploads does.
type Files interface {
	Put(ctx context.Context, key conversation.Key, name, declared string, body io.Reader) (media.Attachment, error)
	MaxFile() int64 // bytes that a file may have
	Fetch(ctx context.Context, file media.Attachment) (io.ReadCloser, error)
}

// Fetch opens a file that came with a message.
func (c *Channel) Fetch(ctx context.Context, file media.Attachment) (io.ReadCloser, error) {
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
		return refusedError("write /attach FILE")
	}
	if len(paths) == 0 {
		return nil
	}
	for _, path := range paths {
		file, mediaType, err := openFile(path, c.files.MaxFile())
		if err != nil {
			return err
		}
		defer file.Close()
		if strings.HasPrefix(mediaType, "image/") && !c.seesPictures && c.warned != in.Text {
			c.warned = in.Text
			return unseenError(filepath.Base(path))
		}
		attachment, err := c.files.Put(ctx, c.key, filepath.Base(path), mediaType, file)
		if err != nil {
			return err
		}
		in.Attachments = append(in.Attachments, attachment)
	}
	in.Text, in.NeverCommand = words, true
	return nil
}

// unseenError says of a picture, before it is sent, that the model can't see it.
type unseenError string

func (e unseenError) Error() string {
	return fmt.Sprintf("The model can't see pictures: of %s it is told only the name. (vision = true in [llm] says that it can.)", string(e))
}

// refusedError says why a message can't be sent as it is.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// openFile opens a file that is to be sent, and returns what its bytes show it to be.
func openFile(path string, most int64) (file *os.File, mediaType string, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", refusedError("there is no file " + path)
	case err != nil:
		return nil, "", err
	case !info.Mode().IsRegular():
		return nil, "", refusedError(path + " is no file")
	case info.Size() == 0:
		return nil, "", refusedError(path + " is empty")
	case info.Size() > most:
		return nil, "", refusedError(fmt.Sprintf("%s has %s, and at most %s can be sent", path, files.Size(info.Size()), files.Size(most)))
	}
	if file, err = os.Open(path); err != nil {
		return nil, "", err
	}
	head := make([]byte, 512) // of http.DetectContentType
	n, err := file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		file.Close()
		return nil, "", err
	}
	mediaType, _, _ = strings.Cut(http.DetectContentType(head[:n]), ";")
	return file, mediaType, nil
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
