package db

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// writer is the one connection that writes. The goroutine that has the turn commits
// all writes that wait at that moment in one transaction, with one sync of the disk:
// this lets two hundred chats commit durably at once. The writer has no goroutine of its
// own that must be woken, so a write that comes alone is committed at once.
type writer struct {
	log   *slog.Logger
	db    *sql.DB
	conn  *sql.Conn
	queue chan write
	lazy  chan write
	reads atomic.Int32  // that have the turn or wait for it
	turn  chan struct{} // full while somebody uses the connection, and what follows

	epochs    epochs
	placement placement
	chores    *choreList
	damages   *damages

	closed  bool
	resting bool        // there are no chores until something is written
	failing bool        // the latest chore failed
	timer   *time.Timer // of the next chore
}

// write is one unit of work. do may run twice: when another write of the same
// transaction fails, each is repeated in a transaction of its own.
type write struct {
	do     func(ctx context.Context, tx *sql.Tx) error
	result chan error
}

const (
	maxGroup = 256                  // writes that share a transaction
	maxDelay = 5 * time.Millisecond // that a lazy write waits for others
)

func openWriter(ctx context.Context, log *slog.Logger, damages *damages, path string, list []Chore) (*writer, error) {
	db := sql.OpenDB(connector{damages: damages, dsn: dsn(path)})
	conn, err := connect(ctx, db)
	if err != nil {
		db.Close()
		return nil, err
	}
	w := &writer{
		log:   log,
		db:    db,
		conn:  conn,
		queue: make(chan write, maxGroup),
		lazy:  make(chan write, maxGroup),
		turn:  make(chan struct{}, 1),

		epochs:  epochs{path: path},
		chores:  newChores(list),
		damages: damages,
	}
	w.take()
	w.timer = time.AfterFunc(choreDelay, w.doChore)
	w.give()
	return w, nil
}

// take waits for the turn; give ends it.
func (w *writer) take() { w.turn <- struct{}{} }
func (w *writer) give() { <-w.turn }

// write runs do in a transaction and returns when it is on disk. The context
// counts until the work is queued; from then on the result is waited for, so
// that the caller always knows whether it was stored.
func (w *writer) write(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	job, err := enqueue(ctx, w.queue, do)
	if err != nil {
		return err
	}
	return w.await(job)
}

// writeLazily is write for what may wait a moment for the transaction of
// another, and so costs nearly nothing while much is written.
func (w *writer) writeLazily(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	job, err := enqueue(ctx, w.lazy, do)
	if err != nil {
		return err
	}
	delay := time.NewTimer(maxDelay)
	defer delay.Stop()
	select {
	case err := <-job.result:
		return Explain(err)
	case <-delay.C:
		return w.await(job)
	}
}

func enqueue(ctx context.Context, queue chan<- write, do func(ctx context.Context, tx *sql.Tx) error) (write, error) {
	job := write{do: do, result: make(chan error, 1)}
	if err := ctx.Err(); err != nil {
		return job, err
	}
	select {
	case queue <- job:
		return job, nil
	case <-ctx.Done():
		return job, ctx.Err()
	}
}

// await returns when a job is done, by the goroutine that has the turn. If nobody has
// it, await takes the turn.
func (w *writer) await(job write) error {
	select {
	case err := <-job.result:
		return Explain(err)
	case w.turn <- struct{}{}:
	}
	w.commitQueued()
	w.give()
	return Explain(<-job.result)
}

// read asks do, which must be short, on the writer's own connection: its page
// cache stays valid, while that of every other connection is void after each
// write.
func (w *writer) read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.reads.Add(1)
	defer w.reads.Add(-1)
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer w.give()
	if w.closed {
		return ErrClosed
	}
	if err := w.mayWrite(); err != nil {
		return err
	}
	return Explain(do(context.Background(), w.conn))
}

// wanted reports to the goroutine that has the turn whether another waits for it.
func (w *writer) wanted() bool { return len(w.queue) > 0 || len(w.lazy) > 0 || w.reads.Load() > 0 }

// close commits what waits and closes the file.
func (w *writer) close() error {
	w.take()
	defer w.give()
	if w.closed {
		return nil
	}
	w.commitQueued()
	w.timer.Stop()
	w.finishChores()
	w.closed = true
	return w.leave()
}

// commitQueued commits the writes that wait. Both queues hold at most maxGroup, so
// that the caller's own job is among them.
func (w *writer) commitQueued() {
	group := drain(drain(nil, w.queue), w.lazy)
	if len(group) == 0 {
		return
	}
	if w.closed {
		for _, job := range group {
			job.result <- ErrClosed
		}
		return
	}
	w.commit(group)
	w.wake()
}

// wake has the chores done in a moment, if they rest. The caller has the turn.
func (w *writer) wake() {
	if w.resting {
		w.resting = false
		w.timer.Reset(choreDelay)
	}
}

// drain adds to the group what waits in a queue at this moment.
func drain(group []write, queue <-chan write) []write {
	for range len(queue) {
		group = append(group, <-queue)
	}
	return group
}

func (w *writer) commit(group []write) {
	err := w.transaction(group...)
	if err == nil || len(group) == 1 || errors.Is(err, ErrMoved) {
		for _, job := range group {
			job.result <- err
		}
		return
	}
	for _, job := range group {
		job.result <- w.transaction(job)
	}
}

// transaction commits a group. An error that wraps ErrMoved may come after the
// commit: then all of it is stored in a file that was taken away, and may come back.
func (w *writer) transaction(group ...write) error {
	if err := w.mayWrite(); err != nil {
		return err
	}
	// The driver starts a goroutine per statement for a context that can end.
	ctx := context.Background()
	tx, err := w.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	renewed, err := w.epochs.during(ctx, tx, func() error {
		for _, job := range group {
			if err := job.do(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		w.abandon(ctx)
		return err
	}
	w.epochs.renewed = renewed
	return w.inPlace()
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

// Changes returns how many rows the connection of a transaction has changed since
// it was opened.
func Changes(ctx context.Context, tx *sql.Tx) (n int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT total_changes()`).Scan(&n)
	return n, err
}
