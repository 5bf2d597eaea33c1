package agentloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"parley/agentloop/window"
	"parley/conversation"
)

const (
	fetchTimeout = 30 * time.Second // for all files of a run together
	maxTextFile  = 128 << 10        // bytes of a text file
	maxImageFile = 8 << 20          // bytes of an image
	maxImages    = 4                // shown in a window: the newest; older ones are named
	maxFiles     = 20               // other files that a run reads: the newest; older ones are named
)

// fetchFiles reads the files of a question into its messages: text files as text,
// and images as images where the model takes them. Other files, and those that can't
// be loaded, are named in the text.
func (l *loop) fetchFiles(ctx context.Context, q *question) {
	if !slices.ContainsFunc(q.asked, func(in conversation.Inbound) bool { return len(in.Attachments) > 0 }) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	users := slices.Clone(q.users)
	var fetching sync.WaitGroup
	for i, in := range chooseFiles(q.asked) {
		if len(in.Attachments) > 0 {
			fetching.Go(func() { l.addFiles(limited, in, &users[len(q.notes)+i]) })
		}
	}
	fetching.Wait()
	if ctx.Err() == nil { // else the run was stopped, and its files are only named
		q.users = users
	}
}

// chooseFiles returns the messages with a Ref only on the newest files, which the run
// reads. So messages with many files can't fill the memory.
func chooseFiles(took []conversation.Inbound) []conversation.Inbound {
	took = slices.Clone(took)
	files, images := maxFiles, maxImages
	for i := len(took) - 1; i >= 0; i-- {
		took[i].Attachments = slices.Clone(took[i].Attachments)
		for j := len(took[i].Attachments) - 1; j >= 0; j-- {
			left, file := &files, &took[i].Attachments[j]
			if isImage(*file) {
				left = &images
			}
			if *left--; *left < 0 {
				file.Ref = ""
			}
		}
	}
	return took
}

// addFiles sets a message to one with its files. After a panic it only names them.
func (l *loop) addFiles(ctx context.Context, in conversation.Inbound, m *conversation.Message) {
	err := recovered(func() error {
		*m = l.withFiles(ctx, in)
		return nil
	})
	if err != nil {
		l.deps.Log.Error("reading files failed", "session", l.key, "error", err)
	}
}

// withFiles returns a message with its files.
func (l *loop) withFiles(ctx context.Context, in conversation.Inbound) conversation.Message {
	e := enclosed{text: in.Text}
	for _, file := range in.Attachments {
		if image, section := l.readFile(ctx, in.Channel(), file); image != nil {
			e.images = append(e.images, *image)
		} else {
			e.add(file, section)
		}
	}
	return l.router.userMessage(in, e)
}

// enclosed is what a message has to say, with its files.
type enclosed struct {
	text   string // with the sections of the files at its end
	images []conversation.Image
	files  []conversation.File
}

// section is what the text of a message has about a file. head and foot are whole
// lines around the body, the text of a file that was read.
type section struct{ head, body, foot string }

// add puts a file below the text.
func (e *enclosed) add(file conversation.Attachment, s section) {
	if e.text != "" {
		e.text += "\n"
	}
	f := conversation.File{Name: fileName(file), MediaType: mediaType(file), Size: file.Size}
	f.Lines.From = len(e.text)
	e.text += s.head
	if s.foot != "" {
		f.Body.From = len(e.text) + 1
		e.text += "\n" + s.body
		f.Body.To = len(e.text)
		e.text += "\n" + s.foot
	}
	f.Lines.To = len(e.text)
	e.files = append(e.files, f)
}

// readFile returns a file as an image, or else what the message says about it.
func (l *loop) readFile(ctx context.Context, channel string, file conversation.Attachment) (*conversation.Image, section) {
	limit := int64(maxTextFile)
	mediaType, isImage := mediaType(file), isImage(file)
	switch {
	case file.Ref == "":
		return nil, named(file)
	case isImage && l.deps.Vision:
		limit = maxImageFile
	case isImage, !mayBeText(mediaType):
		return nil, named(file)
	}
	data, err := l.fetch(ctx, channel, file, limit)
	switch {
	case err != nil:
		return nil, section{head: fmt.Sprintf("[file %s could not be loaded: %v]", fileName(file), err)}
	case isImage && http.DetectContentType(data) != mediaType:
		return nil, section{head: fmt.Sprintf("[file %s could not be loaded: it is no %s]", fileName(file), mediaType)}
	case isImage:
		return &conversation.Image{Name: fileName(file), MediaType: mediaType, Size: len(data), Data: data}, section{}
	case !utf8.Valid(data) || bytes.ContainsRune(data, 0):
		return nil, named(file)
	}
	name := fileName(file)
	return nil, section{head: "[file " + name + "]", body: strings.TrimRight(string(data), "\n"), foot: "[end of file " + name + "]"}
}

// mediaType returns the media type that the platform gives, without parameters.
func mediaType(file conversation.Attachment) string {
	name, _, _ := strings.Cut(file.MediaType, ";")
	return name
}

func isImage(file conversation.Attachment) bool { return conversation.IsImageType(mediaType(file)) }

func (l *loop) fetch(ctx context.Context, channel string, file conversation.Attachment, limit int64) ([]byte, error) {
	switch {
	case l.deps.Files == nil:
		return nil, errors.New("this channel has no files")
	case file.Size > limit:
		return nil, fmt.Errorf("it has %s, and at most %s are read", size(file.Size), size(limit))
	}
	body, err := l.deps.Files.Fetch(ctx, channel, file)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errors.New("it is larger than it said")
	}
	return data, err
}

// mayBeText reports whether a file of this type may be text.
func mayBeText(mediaType string) bool {
	kind, _, _ := strings.Cut(mediaType, "/")
	switch kind {
	case "image", "audio", "video", "font", "model":
		return mediaType == "image/svg+xml"
	}
	return !slices.Contains([]string{"application/zip", "application/gzip", "application/pdf"}, mediaType)
}

// withNames returns a message with files that are only named.
func withNames(in conversation.Inbound) enclosed {
	e := enclosed{text: in.Text}
	for _, file := range in.Attachments {
		e.add(file, named(file))
	}
	return e
}

// named returns the line about a file that is not read.
func named(file conversation.Attachment) section {
	if file.Size == 0 {
		return section{head: fmt.Sprintf("[file %s]", fileName(file))}
	}
	return section{head: fmt.Sprintf("[file %s, %s, not shown]", fileName(file), size(file.Size))}
}

func fileName(file conversation.Attachment) string {
	if name := window.OneLine(file.Name, 100); name != "" {
		return name
	}
	return "without a name"
}

// size returns a number of bytes as people say it.
func size(bytes int64) string {
	switch {
	case bytes == 1:
		return "1 byte"
	case bytes < 1<<10:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}
