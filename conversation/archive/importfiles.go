package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/media"
)

// Keeping says how the files of imported messages are kept.
type Keeping struct {
	Limits files.Limits

	// Show returns how a message shows a kept file. Its errors are those of the store.
	Show func(context.Context, files.File) (Shown, error)
}

// Shown is how an imported message shows a file.
type Shown struct {
	IsPicture bool   // the file is a picture that models and browsers show; then the other fields are empty
	Line      string // line about the file in the message's text, for the model
	Problem   string // why the file can't be shown, in words; "" = it can, or need not
}

// dropUnclaimed deletes the files that an import has kept for messages which it did not store.
// A file that came with an inbound has that until its message is stored.
func dropUnclaimed(ctx context.Context, tx db.Tx) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM files WHERE message_id IS NULL AND inbox_id IS NULL`)
	return err
}

// prepare keeps the files of messages that are stored next, and counts their tokens. Files are
// kept one by one, so that no transaction is long.
func (im *Import) prepare(ctx context.Context, c Imported, messages []conversation.Message) error {
	entered := false
	for i := range messages {
		m := &messages[i]
		if len(m.Files) > 0 && !entered {
			if err := im.enter(ctx); err != nil {
				return err
			}
			entered = true
		}
		if err := im.keepFiles(ctx, c, m); err != nil {
			return err
		}
		if c.Tokens != nil {
			m.Tokens = c.Tokens(*m)
		}
	}
	return nil
}

// enter makes the session if it is new.
func (im *Import) enter(ctx context.Context) error {
	return im.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, _, err := rows.EnterSession(ctx, tx, string(im.key), "", db.Millis(im.store.Now()))
		return err
	})
}

// keepFiles keeps the files of a message that have a Source. What can't be kept is named in its
// text, with the reason.
func (im *Import) keepFiles(ctx context.Context, c Imported, m *conversation.Message) error {
	list := m.Files
	m.Files = nil
	for n, file := range list {
		began := time.Now()
		kept, err := im.keep(ctx, c, n, file)
		var shown Shown
		if err == nil {
			shown, err = im.Files.Show(ctx, kept)
		}
		if _, isTheFiles := errors.AsType[*unreadable](err); err != nil && !isTheFiles {
			return err
		} else if isTheFiles {
			shown = Shown{Line: fmt.Sprintf("[file %s, not imported: %s]", file.Name, err), Problem: err.Error()}
		}
		if shown.IsPicture {
			m.Images = append(m.Images, media.Image{ID: kept.ID, Name: file.Name, MediaType: kept.MediaType, Size: int(kept.Size)})
		} else {
			addFile(m, kept, file, shown)
		}
		giveWay(ctx, began)
	}
	return nil
}

// addFile adds a file that is no picture to a message, with a line below its text.
func addFile(m *conversation.Message, kept files.File, file media.File, shown Shown) {
	if m.Content != "" {
		m.Content += "\n"
	}
	added := media.File{ID: kept.ID, Name: file.Name, MediaType: kept.Declared, Size: max(kept.Size, file.Size), Problem: shown.Problem}
	added.Lines.From = len(m.Content)
	m.Content += shown.Line
	added.Lines.To = len(m.Content)
	m.Files = append(m.Files, added)
}

// unreadable is the reason why a file is not kept, in words for people.
type unreadable struct{ words string }

func (e *unreadable) Error() string { return e.words }

// keep stores the bytes of a file. The error is *unreadable, or one of the store.
func (im *Import) keep(ctx context.Context, c Imported, n int, file media.File) (files.File, error) {
	if im.Files.Show == nil || file.Source == nil || c.Open == nil {
		return files.File{}, &unreadable{"files are not imported here"}
	}
	kept, err := files.New(im.store).Keep(ctx, files.Incoming{
		Session: im.key, N: n, Attachment: file.Source.Attachment,
		Open: func(context.Context) (io.ReadCloser, error) { return c.Open(file.Source.Attachment.Ref) },
	}, im.Files.Limits)
	refused, isRefused := errors.AsType[*files.RefusedError](err)
	_, isStore := errors.AsType[*files.StoreError](err)
	switch {
	case isRefused:
		return kept, &unreadable{refused.Words}
	case err != nil && !isStore && ctx.Err() == nil:
		return kept, &unreadable{"the archive is broken there"}
	}
	return kept, err
}
