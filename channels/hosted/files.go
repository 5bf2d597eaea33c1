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
)

// SendFile answers a request with a file of a message: the one with the number n of
// those that are no pictures. A browser stores it and shows nothing of it, whatever it
// is. An error is conversation.ErrNotFound, also for a file that is not kept, or one of
// the store; nothing was answered then.
func SendFile(w http.ResponseWriter, r *http.Request, store *conversation.Store, id string, seq int64, n int) error {
	file, key, err := store.FileAt(r.Context(), id, seq, n)
	if err != nil {
		return err
	}
	all := files.New(store)
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

// FileData returns the bytes of a file of a message, nil when they are not kept or are
// more than a message may bring.
func FileData(ctx context.Context, store *conversation.Store, key conversation.Key, file conversation.File) ([]byte, error) {
	all := files.New(store)
	kept, err := all.File(ctx, key, file.ID)
	if errors.Is(err, files.ErrNotFound) || err == nil && (!kept.IsHere() || kept.Size > MaxFile) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	reader, err := all.Open(ctx, kept)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return io.ReadAll(reader.Whole())
}
