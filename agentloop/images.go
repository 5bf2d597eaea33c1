package agentloop

import (
	"context"
	"fmt"
	"slices"

	"parley/conversation"
	"parley/filecontent/picture"
)

// maxImages is how many pictures a window shows: the newest. Older ones are named.
const maxImages = 4

// withImages returns the snapshot and the messages of a question with the bytes of
// the newest images. Older ones are named in the text, and so are all where the model
// takes none.
func (l *loop) withImages(ctx context.Context, q question) (conversation.Snapshot, []conversation.Message) {
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

// maxImageMemory is how many bytes of images all runs together may load. A model call
// takes several times their size.
const maxImageMemory = 128 << 20

// reserveImages waits until the images of a run fit into maxImageMemory. release
// ends the reservation.
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

// imageBytes returns the most that the images of a run may take: those of the question
// and of the history, up to maxImages.
func (l *loop) imageBytes(q *question) (total int64) {
	if !l.deps.Vision {
		return 0
	}
	left := maxImages
	for _, messages := range [][]conversation.Message{q.users, q.snapshot.History} {
		for _, m := range slices.Backward(messages) {
			for _, image := range m.Images {
				if left--; left >= 0 {
					total += min(int64(image.Size), picture.MaxBytes)
				}
			}
		}
	}
	return total
}

// loadImages loads up to left images of a message and names the others. It returns
// how many may still be loaded for older messages.
func (l *loop) loadImages(ctx context.Context, m conversation.Message, left int) (conversation.Message, int) {
	images := m.Images
	m.Images = nil
	for _, image := range images {
		if left > 0 {
			loaded, err := l.loadImage(ctx, image)
			if err == nil {
				m.Images = append(m.Images, loaded)
				left--
				continue
			}
			l.deps.Log.Error("image not read", "session", l.key, "image", image.Name, "error", err)
		}
		m.Content = join(m.Content, imageLine(image))
	}
	return m, left
}

// loadImage returns an image with the bytes that models take.
func (l *loop) loadImage(ctx context.Context, image conversation.Image) (conversation.Image, error) {
	if image.ID == 0 { // of an earlier version
		data, err := l.deps.Store.ImageData(ctx, image)
		image.Data = data
		return image, err
	}
	kept, err := l.router.kept.File(ctx, l.key, image.ID)
	if err == nil {
		image.Data, image.MediaType, err = l.router.content.Picture(ctx, kept)
	}
	return image, err
}

// imageLine returns the line about an image that is not shown.
func imageLine(image conversation.Image) string {
	return fmt.Sprintf("[image %s, not shown]", image.Name)
}

// join puts more text on a new line.
func join(text, more string) string {
	if text == "" || more == "" {
		return text + more
	}
	return text + "\n" + more
}
