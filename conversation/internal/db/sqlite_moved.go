package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"parley/internal/clock"
)

// placement records whether the open files are still at their paths. Only the goroutine
// that has the writer's turn uses it, except for the atomic fields.
type placement struct {
	files   *openFiles // nil while the store is being opened
	locks   *locks
	readers *sql.DB
	idle    int // reading connections that the pool keeps open

	missing atomic.Pointer[error] // why writes are refused; nil while all files are in place
	returns atomic.Int64          // how often the database was put back
	last    misplaced             // the file that was misplaced when missing was set
	stuck   error                 // why a misplaced log, index or lock file could not be made again
	looked  time.Time             // when all files were last seen in place

	completed bool // the log was written into the moved database
	tried     bool // saving a copy of the deleted database was tried
}

// inPlace returns nil if all files are where they were opened, so that committed data
// outlasts this process. It makes lost files beside the database again where it can, and logs
// when the database is moved away and when it is put back. The caller has the turn.
func (w *writer) inPlace() error {
	p := &w.placement
	if p.files == nil {
		return nil
	}
	m := p.files.look()
	for range 3 { // once for the locks, once for the log and its index, and a last check
		if m == nil || !w.mend(m) {
			break
		}
		m = p.files.look()
	}
	var err error
	switch {
	case m != nil && p.stuck != nil:
		err = fmt.Errorf("%w: %s (%w)", ErrMoved, p.files.words(m), p.stuck)
	case m != nil:
		err = p.files.explain(m)
	case p.missing.Load() != nil && !p.files.unchanged():
		m = &misplaced{path: p.files.path}
		err = fmt.Errorf("%w: nothing is stored or answered, since %w", ErrMoved, errWritten)
	}
	return w.note(m, err)
}

// place sets the files that the writer checks.
func (w *writer) place(files *openFiles, locks *locks, readers *sql.DB, idle int) {
	w.group.take()
	defer w.group.give()
	w.placement = placement{files: files, locks: locks, readers: readers, idle: idle}
}

// leave closes the writer's connection for good. SQLite then writes the log into the
// database and deletes the log, unless the database was moved away. If another program may
// have written to the log, leave closes nothing: SQLite would keep only the frames that it
// knows, whereas the next start reads all of them.
func (w *writer) leave() error {
	err := w.inPlace()
	if err != nil && w.placement.last.suffix == indexSuffix {
		return err
	}
	return errors.Join(w.disconnect(), w.db.Close())
}

// lookedWithin is how long a check of the files stays valid for beginning a transaction.
// Before a transaction is reported as stored, the files are checked again.
const lookedWithin = 20 * time.Millisecond

// mayWrite is inPlace for a transaction that begins. It reuses a recent check.
func (w *writer) mayWrite() error {
	if p := &w.placement; p.missing.Load() == nil && time.Since(p.looked) < lookedWithin {
		return nil
	}
	return w.inPlace()
}

// note stores the result of a check. It logs when the database is moved away and when it is
// put back, and completes the moved file.
func (w *writer) note(m *misplaced, err error) error {
	p := &w.placement
	before := p.missing.Load()
	if err == nil {
		p.looked = time.Now()
		if before != nil {
			p.missing.Store(nil)
			p.completed = false
			p.files.forget()
			p.returns.Add(1)
			w.log.Info("database back in its place, storing again", "database", p.files.path)
		}
		return nil
	}
	first := before == nil
	if m.suffix == "" && !errors.Is(err, errWritten) {
		w.complete()
		err = p.files.explain(m)
	}
	p.missing.Store(&err)
	if first || *m != p.last {
		w.log.Error("database taken away, nothing is stored", "database", p.files.path, "error", err)
	}
	p.last = *m
	if first {
		p.files.leave()
	}
	return err
}

// complete makes the moved file usable on its own by writing the log into it. If the file
// was deleted, complete saves a copy, because its content disappears with this process.
func (w *writer) complete() {
	p := &w.placement
	if w.conn == nil {
		return
	}
	if !p.completed {
		if err := w.checkpoint(); err != nil {
			w.log.Warn("write-ahead log not written into the database that was taken away", "error", Explain(err))
		}
		p.completed = true
	}
	if _, deleted := p.files.fate(); !deleted || p.tried {
		return
	}
	p.tried = true
	path := p.files.path + time.Now().Format(".saved-20060102-150405")
	if err := w.copyTo(path); err != nil {
		w.log.Error("deleted database not saved", "file", path, "error", Explain(err))
		return
	}
	p.files.setSaved(path)
}

// copyTo writes the whole database into a new file.
func (w *writer) copyTo(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.conn.ExecContext(context.Background(), "VACUUM INTO ?", path)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// errWritten says that the files were changed before they were put back.
var errWritten = errors.New("another program has written to the database while it was away; stop the gateway, check the file with `gateway verify`, and start it again")

// completeWait is how long a checkpoint waits for the readers of other processes.
const completeWait = 500 * time.Millisecond

// checkpoint writes the whole log into the database file, wherever that file is now, and
// empties the log. People usually move a database without its log, and the log must not be
// replayed into another file at the old path.
func (w *writer) checkpoint() error {
	ctx := context.Background()
	if _, err := w.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", completeWait.Milliseconds())); err != nil {
		return err
	}
	defer func() { // it only fails on a closed connection
		_, _ = w.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout.Milliseconds()))
	}()
	var busy, frames, written int
	if err := w.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &written); err != nil {
		return err
	}
	if busy != 0 {
		return errors.New("another process reads the database")
	}
	return nil
}

// mend replaces a misplaced lock file, log or index, and reports whether it could. This
// process still has the old log and index open: it writes the log into the database and
// opens the database again.
func (w *writer) mend(m *misplaced) bool {
	p := &w.placement
	p.stuck = nil
	switch {
	case m.err != nil || m.suffix == "":
		return false
	case m.suffix == lockSuffix:
		p.stuck = p.relock()
	case m.suffix == indexSuffix && !m.gone: // another program may have written to the log
		p.stuck = errors.New("stop the gateway, check the database with `gateway verify`, and start it again")
	default:
		p.stuck = w.reopen()
	}
	if p.stuck == nil {
		w.log.Warn("file beside the database was taken away and is made anew; nothing is lost", "file", m.path)
	}
	return p.stuck == nil
}

// relock takes all locks in the lock file that is at the path now.
func (p *placement) relock() error {
	if err := p.locks.renew(); err != nil {
		return err
	}
	return p.files.learn(lockSuffix)
}

// reopen closes every connection and opens the database again with a new log. It fails if
// another process has the database open, since that process would keep using the old log.
func (w *writer) reopen() error {
	p := &w.placement
	release, err := p.locks.alone()
	if err != nil {
		return err
	}
	defer release()
	p.files.setClosed(true)
	defer p.files.setClosed(false)
	p.readers.SetMaxIdleConns(0)
	defer p.readers.SetMaxIdleConns(p.idle)
	if p.readers.Stats().OpenConnections > 0 {
		return errors.New("it is being read just now; trying again")
	}
	if !p.files.unchanged() {
		return errWritten
	}
	if w.conn != nil {
		if err := w.checkpoint(); err != nil {
			return Explain(err)
		}
	}
	if err := w.disconnect(); err != nil {
		return err
	}
	if m := p.files.database(); m != nil {
		return errors.New(p.files.words(m))
	}
	wal := p.files.path + walSuffix
	if info, err := os.Stat(wal); err == nil && info.Size() > 0 {
		return fmt.Errorf("another program writes to %s; end it", wal)
	}
	if w.conn, err = connect(context.Background(), w.db); err != nil {
		return Explain(err)
	}
	p.files.forget()
	return p.files.learn(walSuffix, indexSuffix)
}

// disconnect closes the writer's connection.
func (w *writer) disconnect() error {
	if w.conn == nil {
		return nil
	}
	conn := w.conn
	w.conn, w.unsynced = nil, false
	w.db.SetMaxIdleConns(0) // otherwise the pool keeps the connection open
	return conn.Close()
}

// connect opens a connection and reads from it, which makes SQLite create the log and its
// index.
func connect(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var tables int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// watchEvery is how often DB.Watch checks the files.
const watchEvery = time.Second

func (f *sqliteFile) watch(ctx context.Context, back func()) {
	returns, other := f.writer.placement.returns.Load(), f.other
	clock.Every(ctx, watchEvery, func() {
		if f.writer.placement.missing.Load() != nil || f.files.look() != nil {
			f.writer.lookAgain()
		}
		if now := f.writer.placement.returns.Load(); now != returns {
			returns = now
			back()
		}
		before := other
		if other = f.locks.otherDaemon(); before != 0 && other != before {
			f.log.Warn("another gateway on this database has ended; this one answers what it has left", "pid", before)
			back()
		}
	})
}

// lookAgain checks the files, and mends them where it can.
func (w *writer) lookAgain() {
	w.group.take()
	defer w.group.give()
	if !w.group.closed {
		_ = w.inPlace() // it logs and stores the error itself
	}
}
