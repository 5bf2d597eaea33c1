package hosted

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
)

// SendFile answers a request with a file of a message: the one with the number n of
// those that are no pictures. A browser stores it and shows nothing of it, whatever it
// is. An error is conversation.ErrNotFound, also for a file that is not kept, or one of
// the store; nothing was answered then.
func SendFile(w http.ResponseWriter, r *http.Request, store *conversation.Store, id string, seq int64, n int) error {
	all := files.New(store)
	file, key, err := all.FileAt(r.Context(), id, seq, n)
	if err != nil {
		return err
	}
	kept, err := all.File(r.Context(), key, file.ID)
	if err == nil {
		reader, opened := all.Open(r.Context(), kept)
		if err = opened; err == nil {
			defer reader.Close()
			header := w.Header()
			header.Set("Content-Type", "application/octet-stream")
			header.Set("X-Content-Type-Options", "nosniff")
			header.Set("Content-Security-Policy", "sandbox; default-src 'none'")
			header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": FileName(file.Name)}))
			header.Set("Cache-Control", "private, no-cache")
			http.ServeContent(w, r, "", time.Time{}, reader.Whole())
			return nil
		}
	}
	if errors.Is(err, files.ErrNotFound) {
		return conversation.ErrNotFound
	}
	return err
}

// OpenFile opens a file of a message, and returns nil when its bytes are not kept.
func OpenFile(ctx context.Context, store *conversation.Store, key conversation.Key, file media.File) (io.ReadCloser, error) {
	all := files.New(store)
	kept, err := all.File(ctx, key, file.ID)
	if errors.Is(err, files.ErrNotFound) || err == nil && !kept.IsHere() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	reader, err := all.Open(ctx, kept)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{reader.Whole(), reader}, nil
}
