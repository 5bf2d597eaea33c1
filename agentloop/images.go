package agentloop

import (
	"context"
	"slices"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/media"
	"parley/filecontent/picture"
)

// withImages returns the snapshot and the messages of a question with the bytes of
// the images that the window may show: the newest, where the model takes any.
func (l *loop) withImages(ctx context.Context, q question) (conversation.Snapshot, []conversation.Message) {
	if !q.setup.model.Vision {
		return q.snapshot, q.users
	}
	left := window.MaxPictures
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
// and of the history, up to as many as a window shows.
func (l *loop) imageBytes(q *question) (total int64) {
	if !q.setup.model.Vision {
		return 0
	}
	left := window.MaxPictures
	for _, messages := range [][]conversation.Message{q.users, q.snapshot.History} {
		for _, m := range slices.Backward(messages) {
			if m.Role == conversation.RoleAssistant {
				continue
			}
			for _, image := range m.Images {
				if left--; left >= 0 {
					total += min(int64(image.Size), picture.MaxBytes)
				}
			}
		}
	}
	return total
}

// loadImages loads the newest images of a message, up to left, and marks those that can't be
// read. It returns how many may still be loaded for older messages.
func (l *loop) loadImages(ctx context.Context, m conversation.Message, left int) (conversation.Message, int) {
	if m.Role == conversation.RoleAssistant { // the window names them
		return m, left
	}
	m.Images = slices.Clone(m.Images)
	for i := len(m.Images) - 1; i >= 0 && left > 0; i-- {
		m.Images[i] = l.loadOrMark(ctx, m.Images[i])
		left--
	}
	return m, left
}

// loadOrMark returns an image with the bytes that models take, or marked as lost if they can't
// be read.
func (l *loop) loadOrMark(ctx context.Context, image media.Image) media.Image {
	loaded, err := l.loadImage(ctx, image)
	if err != nil {
		l.deps.Log.Error("image not read", "session", l.key, "image", image.Name, "error", err)
		image.Lost = true
		return image
	}
	return loaded
}

// loadImage returns an image with the bytes that models take.
func (l *loop) loadImage(ctx context.Context, image media.Image) (media.Image, error) {
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
