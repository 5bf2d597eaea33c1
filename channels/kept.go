package channels

import (
	"context"
	"errors"
	"log/slog"

	"parley/conversation"
)

// Kept is what adapters are made of that have nothing to send: their replies
// are kept in the store for whoever asks, and their files were uploaded to it.
type Kept struct {
	store *conversation.Store
	log   *slog.Logger
}

// NewKept makes the part of an adapter that is the same for all such.
func NewKept(store *conversation.Store, log *slog.Logger) Kept {
	return Kept{store: store, log: log}
}

// Split gives no parts: what is not kept, such as the answer to a stop button,
// is shown by what it has done.
func (Kept) Split(conversation.Delivery) []Part { return nil }

// Send is never called, since there are no parts.
func (Kept) Send(context.Context, conversation.Delivery, Part) (string, error) {
	return "", &SendError{Permanent: true, Err: errors.New("the channel sends nothing")}
}

// Fetch reads a file that came with a message.
func (k Kept) Fetch(ctx context.Context, file conversation.Attachment, limit int64) ([]byte, error) {
	upload, err := k.store.Uploaded(ctx, file.Ref)
	switch {
	case errors.Is(err, conversation.ErrNoUpload):
		return nil, errors.New("it is no longer there")
	case err != nil:
		k.log.Error("an uploaded file can't be read", "file", file.Ref, "error", err)
		return nil, errors.New("it can't be read")
	case int64(len(upload.Data)) > limit:
		return nil, errors.New("it is too large")
	}
	return upload.Data, nil
}
