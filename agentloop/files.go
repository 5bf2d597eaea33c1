package agentloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	if !slices.ContainsFunc(q.took, func(in conversation.Inbound) bool { return len(in.Attachments) > 0 }) || q.again > 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	users := slices.Clone(q.users)
	var fetching sync.WaitGroup
	for i, in := range chooseFiles(q.took) {
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
	text := in.Text
	var images []conversation.Image
	for _, file := range in.Attachments {
		image, words := l.readFile(ctx, in.Channel(), file)
		if image != nil {
			images = append(images, *image)
		}
		text = join(text, words)
	}
	return l.router.userMessage(in, text, images)
}

// readFile returns a file as an image, or as text for the message.
func (l *loop) readFile(ctx context.Context, channel string, file conversation.Attachment) (*conversation.Image, string) {
	limit := int64(maxTextFile)
	mediaType, isImage := mediaType(file), isImage(file)
	switch {
	case file.Ref == "":
		return nil, nameOf(file)
	case isImage && l.deps.Vision:
		limit = maxImageFile
	case isImage, !mayBeText(mediaType):
		return nil, nameOf(file)
	}
	data, err := l.fetch(ctx, channel, file, limit)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("[file %s could not be loaded: %v]", fileName(file), err)
	case isImage && http.DetectContentType(data) != mediaType:
		return nil, fmt.Sprintf("[file %s could not be loaded: it is no %s]", fileName(file), mediaType)
	case isImage:
		return &conversation.Image{Name: fileName(file), MediaType: mediaType, Size: len(data), Data: data}, ""
	case !utf8.Valid(data) || bytes.ContainsRune(data, 0):
		return nil, nameOf(file)
	}
	return nil, fmt.Sprintf("[file %s]\n%s\n[end of file %s]", fileName(file), strings.TrimRight(string(data), "\n"), fileName(file))
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
	return l.deps.Files.Fetch(ctx, channel, file, limit)
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

// withNames returns a text with files named below it.
func withNames(text string, files []conversation.Attachment) string {
	for _, file := range files {
		text = join(text, nameOf(file))
	}
	return text
}

// nameOf returns the line that names a file which is not read.
func nameOf(file conversation.Attachment) string {
	if file.Size == 0 {
		return fmt.Sprintf("[file %s]", fileName(file))
	}
	return fmt.Sprintf("[file %s, %s, not shown]", fileName(file), size(file.Size))
}

func fileName(file conversation.Attachment) string {
	if name := window.OneLine(file.Name, 100); name != "" {
		return name
	}
	return "without a name"
}

// join puts more text on a new line.
func join(text, more string) string {
	if text == "" || more == "" {
		return text + more
	}
	return text + "\n" + more
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
