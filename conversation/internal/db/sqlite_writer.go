package db

import (
	"context"
	"database/sql"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// writer is the one connection that writes to a SQLite file.
type writer struct {
	log   *slog.Logger
	db    *sql.DB
	conn  *sql.Conn
	group *committer // only the goroutine that has its turn may use the connection and the fields below

	unsynced  bool // whether the connection commits without a sync of the disk
	epochs    epochs
	placement placement
	full      atomic.Pointer[fullDisk] // the latest write that found no room
	chores    *background
	damages   *damages
}

func openWriter(ctx context.Context, log *slog.Logger, damages *damages, path string, list []Chore) (*writer, error) {
	db := sql.OpenDB(connector{damages: damages, dsn: dsn(path)})
	conn, err := connect(ctx, db)
	if err != nil {
		db.Close()
		return nil, err
	}
	w := &writer{log: log, db: db, conn: conn, epochs: epochs{path: path}, damages: damages}
	w.chores = &background{log: log, list: newChores(list), skip: w.skipDamage, rested: w.shrink}
	w.group = newCommitter(w.transaction, w.chores.wake)
	w.chores.start(w.group)
	return w, nil
}

// shrink frees memory of the connection. An error does not matter, since shrink is called again later.
func (w *writer) shrink() {
	_, _ = w.conn.ExecContext(context.Background(), "PRAGMA shrink_memory")
}

// skipDamage makes a chore that failed because of damage skip the damaged rows.
func (w *writer) skipDamage(failed *choreError) error {
	w.damages.met(failed.chore.Name, failed.err)
	if failed.chore.Skip == nil {
		return failed
	}
	return failed.chore.Skip(context.Background(), &Skipper{w})
}

// read implements DB.Read. do must be short.
func (w *writer) read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error {
	if err := w.group.takeToRead(ctx); err != nil {
		return err
	}
	defer w.group.give()
	if err := w.mayWrite(); err != nil {
		return err
	}
	return Explain(do(context.Background(), w.conn))
}

// close commits the queued writes, runs short chores, and closes the file.
func (w *writer) close() error {
	return w.group.close(func() error {
		w.chores.finish()
		return w.leave()
	})
}

// fullDisk is a write that found no room.
type fullDisk struct {
	at  time.Time
	err error
}

// transaction commits a group. It notes and logs when the disk is full, and when it has room again.
func (w *writer) transaction(group ...write) error {
	err := w.commit(group)
	full := w.full.Load()
	switch {
	case IsDiskFull(err):
		if full == nil {
			w.log.Error("disk full, nothing is stored until there is room", "error", Explain(err))
		}
		w.full.Store(&fullDisk{time.Now(), Explain(err)})
	case err == nil && full != nil && time.Since(full.at) >= fullFor:
		w.full.Store(nil)
		w.log.Info("disk has room again")
	}
	return err
}

// commit commits a group. An error that wraps ErrMoved may come after the commit:
// then the group is stored in a file that was moved away, and may be put back.
func (w *writer) commit(group []write) error {
	if err := w.mayWrite(); err != nil {
		return err
	}
	// The driver starts a goroutine per statement for a context that can end.
	ctx := context.Background()
	quick := !slices.ContainsFunc(group, func(job write) bool { return !job.quick })
	if err := w.setUnsynced(ctx, quick); err != nil {
		return err
	}
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	renewed, err := w.epochs.during(ctx, w.conn, func() error {
		for _, job := range group {
			if err := job.inOrder(ctx, w.conn); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		_, err = w.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		w.rollBack(ctx)
		return err
	}
	w.epochs.renewed = renewed
	return w.inPlace()
}

// setUnsynced sets whether the next commits return before the disk has stored them. The operating system
// stores them soon. Only a failure of the machine before that loses them, and with them all later commits.
func (w *writer) setUnsynced(ctx context.Context, unsynced bool) error {
	if unsynced == w.unsynced {
		return nil
	}
	level := "FULL" // as in dsn
	if unsynced {
		level = "NORMAL"
	}
	_, err := w.conn.ExecContext(ctx, "PRAGMA synchronous = "+level)
	if err == nil {
		w.unsynced = unsynced
	}
	return err
}

// rollBack ends a transaction that failed. After some errors SQLite has rolled back by itself; then the ROLLBACK
// fails, which does not matter.
func (w *writer) rollBack(ctx context.Context) {
	_, _ = w.conn.ExecContext(ctx, "ROLLBACK")
}

// Changes returns how many rows the connection of a transaction has changed since
// it was opened.
func Changes(ctx context.Context, tx Tx) (n int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT total_changes()`).Scan(&n)
	return n, err
}
