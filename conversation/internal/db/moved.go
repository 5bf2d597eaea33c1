package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// placement is what the writer knows of where the open files are. Only the goroutine
// that has the writer's turn uses it, except for the atomic fields.
type placement struct {
	files   *openFiles // nil while the store is being opened
	locks   *locks
	readers *sql.DB
	idle    int // connections for reading that are kept open

	missing atomic.Pointer[error] // why nothing is stored, nil while all is in its place
	returns atomic.Int64          // how often the database has come back
	last    misplaced             // what was misplaced when missing was set
	stuck   error                 // why what is misplaced beside the database was not made anew
	looked  time.Time             // when all was in its place last

	completed bool // the log was written into the database that is away
	tried     bool // to save a database that was deleted
}

// inPlace returns nil when all files stand where they were opened, so that what was
// committed outlasts this process. It repairs what it can, and logs when the database is
// taken away and when it comes back. The caller has the turn.
func (w *writer) inPlace() error {
	p := &w.placement
	if p.files == nil {
		return nil
	}
	m := p.files.look()
	for range 3 { // the locks, the log and its index, and a last look
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

// place tells the writer where the files are that it has open.
func (w *writer) place(files *openFiles, locks *locks, readers *sql.DB, idle int) {
	w.take()
	defer w.give()
	w.placement = placement{files: files, locks: locks, readers: readers, idle: idle}
}

// leave closes the writer's connection for good. SQLite then writes the log into
// the database and deletes it, unless the database is away. Nothing is closed
// where another program may have written to the log: the next start reads all of
// it, and SQLite would write only what it knows of.
func (w *writer) leave() error {
	err := w.inPlace()
	if err != nil && w.placement.last.suffix == indexSuffix {
		return err
	}
	return errors.Join(w.disconnect(), w.db.Close())
}

// lookedWithin is how long a look at the files stays valid for beginning a
// transaction. Each transaction is reported as stored only after another look.
const lookedWithin = 20 * time.Millisecond

// mayWrite is inPlace for a transaction that begins.
func (w *writer) mayWrite() error {
	if p := &w.placement; p.missing.Load() == nil && time.Since(p.looked) < lookedWithin {
		return nil
	}
	return w.inPlace()
}

// note logs when the database goes and comes back, and brings the file in order
// when it goes.
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

// complete makes the file that was taken away one that can be used: with what
// stood in its log alone, and as a copy where it was deleted, since it is gone
// with this process.
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

// copyTo writes all that the database holds into a new file.
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

// errWritten says that files came back changed.
var errWritten = errors.New("another program has written to the database while it was away; stop the gateway, check the file with `gateway verify`, and start it again")

// completeWait is how long a checkpoint waits for the readers of other processes.
const completeWait = 500 * time.Millisecond

// checkpoint writes all of the log into the database file, wherever that is now, and
// empties the log: a database is mostly moved without its log, and the log must not be
// replayed into another file that stands at the path.
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

// mend makes anew what is misplaced beside the database, and reports whether it
// did. Where the log or its index was taken away, this process still has both: it
// writes the log into the database, and opens that again.
func (w *writer) mend(m *misplaced) bool {
	p := &w.placement
	p.stuck = nil
	switch {
	case m.err != nil || m.suffix == "":
		return false
	case m.suffix == lockSuffix:
		p.stuck = p.relock()
	case m.suffix == indexSuffix && !m.gone: // another program may have written to the log since
		p.stuck = errors.New("stop the gateway, check the database with `gateway verify`, and start it again")
	default:
		p.stuck = w.reopen()
	}
	if p.stuck == nil {
		w.log.Warn("file beside the database was taken away and is made anew; nothing is lost", "file", m.path)
	}
	return p.stuck == nil
}

// relock takes all locks in the file that stands at the path now.
func (p *placement) relock() error {
	if err := p.locks.renew(); err != nil {
		return err
	}
	return p.files.learn(lockSuffix)
}

// reopen closes every connection and opens the database again, with a log of
// its own. No other process may have it open, which would go on with the old one.
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
	w.conn = nil
	w.db.SetMaxIdleConns(0) // else the pool keeps it
	return conn.Close()
}

// connect opens a connection, and reads, so that the log and its index are there.
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

// watchEvery is how often Watch looks.
const watchEvery = time.Second

// Watch looks every second whether the database is still where it was opened,
// until ctx ends, so that the operator is told also while nothing is written. It
// calls back each time the database has come back: of what was written just when
// it went, the caller was told an error, and the store may hold it all the same.
func (d *DB) Watch(ctx context.Context, back func()) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	returns := d.writer.placement.returns.Load()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if d.writer.placement.missing.Load() != nil || d.files.look() != nil {
			d.writer.lookAgain()
		}
		if now := d.writer.placement.returns.Load(); now != returns {
			returns = now
			back()
		}
	}
}

func (w *writer) lookAgain() {
	w.take()
	defer w.give()
	if !w.closed {
		_ = w.inPlace() // which logs and keeps it
	}
}
