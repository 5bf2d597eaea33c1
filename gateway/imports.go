package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"parley/channels/web"
	"parley/conversation"
	"parley/conversation/files"
	"parley/importer"
	"parley/internal/clock"
	"parley/internal/durable"
	"parley/llm"
	"parley/plaintext"
)

// The folder of imports, beside the database, holds
//
//	current/    the import under way: the file, its status, the IDs of its conversations, and
//	            whether a person wants it to end
//	last.json   the status of the import that ended last
//	taken-*/    files that are being uploaded, or are no longer needed
//
// An upload becomes current by one rename, which fails while there is another. It stays
// until the whole file is imported, so that an import goes on after a restart. Every process
// with this folder reads there how far it is, and can end it.
const (
	currentImport = "current"
	takenImport   = "taken-"
	lastImport    = "last.json"

	importFile   = "file"
	importStatus = "status.json"
	importNotes  = "notes" // IDs of imported conversations, see importPass.note
	importStop   = "stop"  // an empty file that exists once a person has asked to stop the import
)

// stopInterval is the time between two looks at what other processes have written, and between
// two writes of the status that they read.
const stopInterval = 500 * time.Millisecond

// maxImportWait limits the pause before an import is tried again after the store has failed.
const maxImportWait = time.Minute

// leftoverAge is the age at which an upload can't be under way any more.
const leftoverAge = 24 * time.Hour

// imports imports files into the web chat, one at a time. It is the web.Imports of the
// gateway.
type imports struct {
	folder  string
	store   *conversation.Store
	counter *llm.Counter
	limits  files.Limits // limits for the files of imported messages
	changed func(conversation.Key)
	log     *slog.Logger
	begun   chan struct{} // holds one token when an import was begun

	mu   sync.Mutex
	live *web.ImportStatus // progress of the import that this process runs; nil: none
	stop context.CancelFunc
}

func newImports(folder string, store *conversation.Store, counter *llm.Counter, limits files.Limits, changed func(conversation.Key), log *slog.Logger) *imports {
	return &imports{folder: folder, store: store, counter: counter, limits: limits, changed: changed, log: log, begun: make(chan struct{}, 1)}
}

func (im *imports) current(name string) string { return filepath.Join(im.folder, currentImport, name) }

// Take implements web.Imports.
func (im *imports) Take(name string, from io.Reader) error {
	if status, err := im.Status(); err != nil || status.UnderWay {
		return errors.Join(err, web.ErrImporting)
	}
	if err := os.MkdirAll(im.folder, 0o700); err != nil {
		return err
	}
	taken, err := os.MkdirTemp(im.folder, takenImport+"*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(taken) // it has another name when it was taken
	if err := writeUpload(filepath.Join(taken, importFile), from); err != nil {
		return err
	}
	status := web.ImportStatus{Name: plaintext.ShortLine(filepath.Base(name), 60)}
	if err := writeStatus(filepath.Join(taken, importStatus), status); err != nil {
		return err
	}
	err = os.Rename(taken, filepath.Join(im.folder, currentImport))
	if errors.Is(err, fs.ErrExist) {
		return web.ErrImporting
	}
	if err == nil {
		err = durable.SyncFolder(im.folder)
	}
	select {
	case im.begun <- struct{}{}:
	default: // it is about to look anyway
	}
	return err
}

// writeUpload writes a file durably, and refuses one without conversations.
func writeUpload(path string, from io.Reader) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	opened, err := importer.Open(path, "")
	if err != nil {
		return &web.BadFileError{Err: importer.Reason(err)}
	}
	return opened.Close()
}

// Status implements web.Imports.
func (im *imports) Status() (status web.ImportStatus, err error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.live != nil {
		return *im.live, nil
	}
	status, err = readStatus(im.current(importStatus))
	if err == nil {
		status.UnderWay = true // it begins in a moment, or another process works on it, which writes how far it is
		return status, nil
	}
	if status, err = readStatus(filepath.Join(im.folder, lastImport)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return status, err
}

// Stop implements web.Imports. Whichever process works on the import sees the wish, also after a
// restart.
func (im *imports) Stop() error {
	wish, err := os.OpenFile(im.current(importStop), os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended
	}
	if err == nil {
		err = errors.Join(wish.Close(), durable.SyncFolder(im.current("")))
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.stop != nil {
		im.stop()
	}
	return err
}

// isUnwanted reports whether a person wants the current import to end.
func (im *imports) isUnwanted() bool {
	_, err := os.Stat(im.current(importStop))
	return err == nil
}

// watch calls stop when a person wants the import under way to end, and writes for other
// processes how far it is, until the returned function is called or ctx ends.
func (im *imports) watch(ctx context.Context, stop context.CancelFunc) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { im.follow(ctx, stop) })
	return sync.OnceFunc(func() {
		cancel()
		watching.Wait()
	})
}

func (im *imports) follow(ctx context.Context, stop context.CancelFunc) {
	var written web.ImportStatus
	clock.Every(ctx, stopInterval, func() {
		if im.isUnwanted() {
			stop()
		}
		status, err := im.Status()
		if err == nil && status != written {
			if err = writeStatus(im.current(importStatus), status); err == nil {
				written = status
			}
		}
		if err != nil {
			im.log.Warn("progress of an import not written", "error", err)
		}
	})
}

// run imports what was taken until ctx ends, first of all what the process before this
// one has left.
func (im *imports) run(ctx context.Context) {
	im.removeLeftovers()
	for {
		if err := im.finish(ctx); err != nil && ctx.Err() == nil {
			im.log.Error("import not finished", "error", err)
		}
		select {
		case <-im.begun:
		case <-ctx.Done():
			return
		}
	}
}

// removeLeftovers removes uploads that a killed process has left.
func (im *imports) removeLeftovers() {
	left, _ := filepath.Glob(filepath.Join(im.folder, takenImport+"*")) // the pattern is well-formed
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > leftoverAge {
			_ = os.RemoveAll(path) // else the next start does
		}
	}
}

// finish imports the current file to its end, however often storing fails meanwhile.
func (im *imports) finish(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	defer im.set(nil, nil)
	unwatch := im.watch(ctx, stop)
	defer unwatch()
	end := func(problem string) error {
		unwatch() // it writes into the folder
		return im.end(problem)
	}
	for wait := time.Second; ; wait = min(2*wait, maxImportWait) {
		status, err := readStatus(im.current(importStatus))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // there is none, or another process has imported it
		}
		if err != nil {
			return err
		}
		status = web.ImportStatus{Name: status.Name, UnderWay: true} // a pass counts anew
		im.set(&status, stop)
		if im.isUnwanted() { // since before a restart
			stop()
		}
		err = im.pass(running)
		if ctx.Err() != nil {
			return ctx.Err() // it goes on after the next start
		}
		var unreadable *web.BadFileError
		switch {
		case err == nil:
			return end("")
		case errors.As(err, &unreadable):
			return end("The file can't be read to its end: " + unreadable.Error() + ".")
		case running.Err() == nil:
			im.log.Warn("import interrupted, trying again", "wait", wait, "error", err)
			im.update(func(s *web.ImportStatus) { s.Problem = waitingReason(err) })
			_ = clock.Sleep(running, wait) // ends early when a person stops the import
		}
		if running.Err() != nil {
			im.update(func(s *web.ImportStatus) { s.Stopped = true })
			return end("")
		}
	}
}

// end stores how the current import ended, and removes it.
func (im *imports) end(problem string) error {
	status, err := im.Status()
	if err != nil {
		return err
	}
	status.EndedAt, status.Problem = time.Now(), problem
	if err := writeStatus(filepath.Join(im.folder, lastImport), status); err != nil {
		return err
	}
	im.log.Info("import finished", "file", status.Name, "added", status.Added, "known", status.Known, "broken", status.Broken, "stopped", status.Stopped, "problem", problem)
	done := filepath.Join(im.folder, fmt.Sprintf("%sdone-%d", takenImport, status.EndedAt.UnixNano()))
	if err := os.Rename(filepath.Join(im.folder, currentImport), done); err != nil {
		return err
	}
	return os.RemoveAll(done)
}

// set replaces the status of the import under way; nil says that it has ended.
func (im *imports) set(status *web.ImportStatus, stop context.CancelFunc) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.live, im.stop = status, stop
}

// update changes the status of the import under way.
func (im *imports) update(change func(*web.ImportStatus)) {
	im.mu.Lock()
	defer im.mu.Unlock()
	change(im.live)
}

func readStatus(path string) (status web.ImportStatus, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return status, err
	}
	return status, json.Unmarshal(data, &status)
}

// writeStatus replaces the status in a file durably.
func writeStatus(path string, status web.ImportStatus) error {
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, takenImport+"*", func(file *os.File) error {
		_, err := file.Write(data)
		return err
	}, os.Rename)
}
