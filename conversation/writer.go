package conversation

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

// writer is the one goroutine that writes. Writes that wait at the same time
// share a transaction, and with it one sync of the disk: this is what lets two
// hundred chats commit durably at once.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	queue chan write
	reads chan read
	done  chan struct{}

	mu     sync.RWMutex // guards closed against sends on the queue
	closed bool
}

// write is one unit of work. do may run twice: when another write of the same
// transaction fails, all of them are made again one by one.
type write struct {
	do     func(ctx context.Context, tx *sql.Tx) error
	result chan error
}

// read is a short question that is asked between two transactions, on the
// writer's own connection: its page cache stays valid, while that of every other
// connection is void after each write.
type read struct {
	do     func(ctx context.Context, conn *sql.Conn) error
	result chan error
}

// maxGroup bounds how many writes share a transaction.
const maxGroup = 256

var errClosed = errors.New("the database is closed")

func openWriter(ctx context.Context, dsn string) (*writer, error) {
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, err
	}
	w := &writer{db: db, conn: conn, queue: make(chan write, maxGroup), reads: make(chan read, maxGroup), done: make(chan struct{})}
	go w.run()
	return w, nil
}

// write runs do in a transaction and returns when it is on disk. The context
// counts until the work is queued; from then on the result is waited for, so
// that the caller always knows whether it was stored.
func (w *writer) write(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	job := write{do: do, result: make(chan error, 1)}
	if err := w.enqueue(ctx, job); err != nil {
		return err
	}
	return explain(<-job.result)
}

// read asks do, which must be short: every write waits for it.
func (w *writer) read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	job := read{do: do, result: make(chan error, 1)}
	select {
	case w.reads <- job:
	case <-w.done:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-job.result:
		return explain(err)
	case <-w.done:
		return errClosed
	}
}

func (w *writer) enqueue(ctx context.Context, job write) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return errClosed
	}
	select {
	case w.queue <- job:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	<-w.done
	return errors.Join(w.conn.Close(), w.db.Close())
}

func (w *writer) run() {
	defer close(w.done)
	group := make([]write, 0, maxGroup)
	index := time.NewTimer(indexDelay)
	defer index.Stop()
	indexing := true // the timer runs
	for {
		select {
		case job := <-w.reads:
			job.result <- job.do(context.Background(), w.conn)
		case job, open := <-w.queue:
			if !open {
				w.finishIndex()
				return
			}
			group = w.gather(append(group[:0], job))
			w.commit(group)
			clear(group)
			if !indexing {
				index.Reset(indexDelay)
				indexing = true
			}
		case <-index.C:
			more, err := w.index()
			if indexing = more || err != nil; indexing {
				index.Reset(indexDelay / 10)
			}
		}
	}
}

// gather adds what else is waiting already, without waiting for more.
func (w *writer) gather(group []write) []write {
	for len(group) < maxGroup {
		select {
		case job, open := <-w.queue:
			if !open {
				return group
			}
			group = append(group, job)
		default:
			return group
		}
	}
	return group
}

func (w *writer) commit(group []write) {
	err := w.transaction(group...)
	if err == nil || len(group) == 1 {
		for _, job := range group {
			job.result <- err
		}
		return
	}
	for _, job := range group {
		job.result <- w.transaction(job)
	}
}

func (w *writer) transaction(group ...write) error {
	// The driver starts a goroutine per statement for a context that can end.
	ctx := context.Background()
	tx, err := w.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for _, job := range group {
		if err := job.do(ctx, tx); err != nil {
			return errors.Join(err, ignoreDone(tx.Rollback()))
		}
	}
	if err := tx.Commit(); err != nil {
		w.abandon(ctx)
		return err
	}
	return nil
}

// abandon ends a transaction whose COMMIT failed: database/sql thinks that it
// is over, but SQLite keeps it open when the disk is full or the file is busy.
func (w *writer) abandon(ctx context.Context) {
	_, _ = w.conn.ExecContext(ctx, "ROLLBACK")
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}
