package agentloop

import (
	"bytes"
	"cmp"
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
	fetchTimeout = 30 * time.Second // for all files of one run
	maxTextFile  = 128 << 10        // bytes of a text file that is read into its message
	maxImageFile = 8 << 20          // bytes of an image
	maxImages    = 4                // the newest ones of a window are shown, older ones are named
	maxFiles     = 20               // others that one run reads: the newest; older ones are named
)

// fetchFiles reads the files of a question into its messages: text as text,
// images as images when the model sees. Of every other file, and of one that
// could not be loaded, the model is told.
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
	if ctx.Err() == nil { // of a run that was stopped meanwhile the files are only named
		q.users = users
	}
}

// chooseFiles gives the messages with only those files to be read that one run
// reads: the newest, so that many messages that waited with many files can't
// fill the memory. The others keep their names and have nowhere to be read from.
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

// addFiles gives the message its files. Where that panics, it keeps their names.
func (l *loop) addFiles(ctx context.Context, in conversation.Inbound, m *conversation.Message) {
	err := recovered(func() error {
		*m = l.withFiles(ctx, in)
		return nil
	})
	if err != nil {
		l.deps.Log.Error("the files of a message were not read", "session", l.key, "error", err)
	}
}

// withFiles is a message together with its files.
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

// readFile gives a file as an image or in words.
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

// mediaType is what the platform says, without parameters.
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

// mayBeText says whether a file is worth being looked at as text.
func mayBeText(mediaType string) bool {
	kind, _, _ := strings.Cut(mediaType, "/")
	switch kind {
	case "image", "audio", "video", "font", "model":
		return mediaType == "image/svg+xml"
	}
	return !slices.Contains([]string{"application/zip", "application/gzip", "application/pdf"}, mediaType)
}

// withNames is a text with its files named below it.
func withNames(text string, files []conversation.Attachment) string {
	for _, file := range files {
		text = join(text, nameOf(file))
	}
	return text
}

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

func join(text, more string) string {
	if text == "" || more == "" {
		return text + more
	}
	return text + "\n" + more
}

// size is a number of bytes as people say it.
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

// withImages gives what a window is made of, with the bytes of the newest
// images; the older ones, and all for a model that does not see, are named.
func (l *loop) withImages(ctx context.Context, q question) (conversation.Turn, []conversation.Message) {
	left := 0
	if l.deps.Vision {
		left = maxImages
	}
	show := func(messages []conversation.Message) []conversation.Message {
		if !slices.ContainsFunc(messages, func(m conversation.Message) bool { return len(m.Images) > 0 }) {
			return messages
		}
		messages = slices.Clone(messages)
		for i := len(messages) - 1; i >= 0; i-- {
			messages[i], left = l.loadImages(ctx, messages[i], left)
		}
		return messages
	}
	users := show(q.users)
	q.snapshot.History = show(q.snapshot.History)
	return q.snapshot, users
}

// maxPictures is how many bytes of pictures may be in memory at once, over all
// runs. A model call takes several times their size.
const maxImageMemory = 128 << 20

// takePictures waits until there is room in memory for the pictures that a run
// shows the model, and returns what gives the room back.
func (l *loop) reserveImages(ctx context.Context, q *question) (release func(), err error) {
	size := min(l.imageBytes(q), maxImageMemory)
	if size == 0 {
		return func() {}, nil
	}
	if err := l.router.imageMemory.Acquire(ctx, size); err != nil {
		return nil, err
	}
	return func() { l.router.imageMemory.Release(size) }, nil
}

// pictureBytes is the size of the pictures that a run may show: the newest ones
// of what is asked and of the history.
func (l *loop) imageBytes(q *question) (total int64) {
	if !l.deps.Vision {
		return 0
	}
	left := maxImages
	add := func(size int64) {
		if left--; left >= 0 {
			total += size
		}
	}
	for _, in := range slices.Backward(q.took) {
		for _, file := range in.Attachments {
			if isImage(file) {
				add(cmp.Or(min(file.Size, maxImageFile), maxImageFile))
			}
		}
	}
	for _, messages := range [][]conversation.Message{q.users, q.snapshot.History} {
		for _, m := range slices.Backward(messages) {
			for _, image := range m.Images {
				add(int64(image.Size))
			}
		}
	}
	return total
}

// loadImages shows at most so many images of a message, and says how many may
// still be shown before it.
func (l *loop) loadImages(ctx context.Context, m conversation.Message, left int) (conversation.Message, int) {
	images := m.Images
	m.Images = nil
	for _, image := range images {
		if left > 0 {
			data, err := l.deps.Store.ImageData(ctx, image)
			if err == nil {
				image.Data = data
				m.Images = append(m.Images, image)
				left--
				continue
			}
			l.deps.Log.Error("an image can't be read", "session", l.key, "image", image.Name, "error", err)
		}
		m.Content = join(m.Content, fmt.Sprintf("[image %s, not shown]", image.Name))
	}
	return m, left
}
