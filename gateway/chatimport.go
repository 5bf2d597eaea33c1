package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"parley/channels/web"
	"parley/conversation"
	"parley/conversation/archive"
	"parley/importer"
)

// importKey is the session by which the IDs of imported conversations are made: they are
// the same whenever a file is imported.
const importKey = conversation.Key("web:import")

// listInterval is the time between two changes of the list of chats during an import.
const listInterval = time.Second

// storeError is an error of the store, not of the file that is imported.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// waitingReason says in words for a page what an import waits for.
func waitingReason(err error) string {
	if errors.Is(err, archive.ErrUnderWay) {
		return "Another import into this database is under way, which this one waits for."
	}
	return "The gateway can't store anything at the moment, and tries again. Its log has the details."
}

// importPass reads the current file once, from its beginning.
type importPass struct {
	*imports
	into  *archive.Import
	noted map[string]bool // IDs of conversations that earlier passes have begun to store
	open  string          // ID in noted whose conversation may not be stored completely
	seen  map[string]bool // IDs of conversations that this pass has read
	notes *os.File        // the file to which IDs are added, see note

	listed time.Time // when the list of chats was last said to have changed
}

// pass imports what is not imported yet of the current file. A BadFileError says why the
// rest can't be read, any other error why it can't be stored. A conversation that was
// imported and deleted since is not imported again.
func (im *imports) pass(ctx context.Context) (err error) {
	file, err := importer.Open(im.current(importFile), "")
	if err != nil {
		return &web.BadFileError{Err: importer.Reason(err)}
	}
	defer file.Close()
	p := importPass{imports: im, seen: map[string]bool{}}
	if p.noted, p.open, err = readNotes(im.current(importNotes)); err != nil {
		return err
	}
	if p.notes, err = os.OpenFile(im.current(importNotes), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	defer p.notes.Close()
	if p.into, err = archive.New(im.store).Import(ctx, importKey); err != nil {
		return err
	}
	p.into.Files = importer.Keeping(im.store, im.limits)
	var read int64
	err = file.Read(importKey, time.Now(), func(n int) {
		read += int64(n)
		im.update(func(s *web.ImportStatus) { s.Percent = int(min(100*read/max(file.Size(), 1), 99)) })
	}, func(e importer.Entry) error { return p.take(ctx, e) })
	var failed storeError
	if err != nil && ctx.Err() == nil && !errors.As(err, &failed) {
		err = &web.BadFileError{Err: err}
	}
	err = cmp.Or(err, p.into.Close(context.WithoutCancel(ctx)))
	im.changed(importKey)
	return err
}

// take imports one conversation, and counts it.
func (p *importPass) take(ctx context.Context, e importer.Entry) error {
	if err := ctx.Err(); err != nil {
		return storeError{err}
	}
	added, err := false, e.Err
	if err == nil {
		if added, err = p.add(ctx, e); err != nil && !errors.Is(err, conversation.ErrInvalid) {
			return err
		}
	}
	p.update(func(s *web.ImportStatus) {
		s.Problem = ""
		switch {
		case err != nil:
			s.Broken++
		case added:
			s.Added++
		default:
			s.Known++
		}
	})
	if added && time.Since(p.listed) > listInterval {
		p.listed = time.Now()
		p.changed(importKey)
	}
	return nil
}

// add reports whether this import has added a conversation, now or in an earlier pass.
func (p *importPass) add(ctx context.Context, e importer.Entry) (added bool, err error) {
	id := e.Conversation.ID
	if e.Archived != nil {
		id = e.Archived.Head.ID
	}
	if p.seen[id] {
		return false, nil
	}
	p.seen[id] = true
	if p.noted[id] && id != p.open {
		return true, nil
	}
	if known, err := p.into.Known(ctx, id); known || err != nil {
		return p.noted[id], asStoreError(err)
	}
	if err := p.note(id); err != nil {
		return false, storeError{err}
	}
	added, err = p.store(ctx, e, id)
	if !added && (err == nil || errors.Is(err, conversation.ErrInvalid)) {
		err = errors.Join(err, asStoreError(p.note(withdrawn+id)))
	}
	return added, err
}

func asStoreError(err error) error {
	if err == nil {
		return nil
	}
	return storeError{err}
}

// store stores a conversation as a chat of its own. What is wrong with the file is no
// storeError.
func (p *importPass) store(ctx context.Context, e importer.Entry, id string) (added bool, err error) {
	begun := e.Conversation.CreatedAt
	if e.Archived != nil {
		begun = e.Archived.Head.CreatedAt
	}
	if err := p.into.Open(ctx, conversation.Key("web:"+id), begun); err != nil {
		return false, storeError{err}
	}
	if e.Archived == nil {
		e.Conversation.Tokens = importer.Tokens(p.counter)
		added, err = p.into.Add(ctx, e.Conversation)
		return added, asStoreError(err)
	}
	var unread error
	added, err = p.into.Restore(ctx, e.Archived.Head, func(yield func(archive.Record, error) bool) {
		for record, err := range e.Archived.Records {
			unread = err
			if !yield(record, err) {
				return
			}
		}
	})
	if unread == nil {
		err = asStoreError(err)
	}
	return added, err
}

// withdrawn stands before the ID of a conversation that was noted, and could not be added.
const withdrawn = "-"

// note adds a line to the notes: the ID of a conversation before it is stored. So the notes
// say after a crash which conversations the import has added: those that are noted, and
// of the last one the store says whether it is there.
func (p *importPass) note(line string) error {
	_, err := fmt.Fprintln(p.notes, line)
	return err
}

// readNotes returns the IDs of the notes, and the last one of them.
func readNotes(path string) (noted map[string]bool, last string, err error) {
	noted = map[string]bool{}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	for line := range strings.Lines(string(data)) {
		last = strings.TrimSpace(line)
		if id, is := strings.CutPrefix(last, withdrawn); is {
			delete(noted, id)
		} else {
			noted[last] = true
		}
	}
	return noted, last, nil
}
