package db

import (
	"context"
	"database/sql"
	"fmt"
)

// Skipper helps a chore to skip damaged rows. SQLite commits no transaction that has read a
// damaged page. So a Skipper reads outside of transactions, and runs each write that may fail
// in a transaction of its own. Only Chore.Skip may use it, while the writer waits.
type Skipper struct{ w *writer }

// QueryContext reads on the connection that writes.
func (s *Skipper) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return s.w.conn.QueryContext(ctx, query, args...)
}

// QueryRowContext reads one row on the connection that writes.
func (s *Skipper) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return s.w.conn.QueryRowContext(ctx, query, args...)
}

// NoteDamage is DB.NoteDamage.
func (s *Skipper) NoteDamage(part string, err error) { s.w.damages.met(part, err) }

// Rows calls add with the next n ids of a table after a cursor, and moves the cursor past
// them. If add fails because of damage, Rows calls it again with fewer ids, down to one. If it
// fails for a single row, Rows calls skipped for that row; an error of skipped ends Rows. Rows
// fails with ErrStuck if no readable row follows.
func (s *Skipper) Rows(ctx context.Context, table, cursor string, n int, add func(ctx context.Context, tx Tx, ids []int64) error, skipped func(id int64, err error) error) error {
	var after int64
	if err := s.QueryRowContext(ctx, `SELECT CAST(value AS INTEGER) FROM cursors WHERE name = ?`, cursor).Scan(&after); err != nil {
		return err
	}
	ids, err := ReadableIDs(ctx, s, table, after, n)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%w: no row after id %d of %s can be read", ErrStuck, after, table)
	}
	if err != nil {
		return err
	}
	return s.skipIDs(ctx, cursor, ids, add, skipped)
}

// skipIDs is Rows for given ids, at least one.
func (s *Skipper) skipIDs(ctx context.Context, cursor string, ids []int64, add func(ctx context.Context, tx Tx, ids []int64) error, skipped func(id int64, err error) error) error {
	last := ids[len(ids)-1]
	moved := func(ctx context.Context, tx Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = ?`, last, cursor)
		return err
	}
	err := s.w.transaction(write{work: alone(func(ctx context.Context, tx Tx) error {
		if err := add(ctx, tx, ids); err != nil {
			return err
		}
		return moved(ctx, tx)
	})})
	if !IsDamaged(err) {
		return err
	}
	if len(ids) == 1 {
		if err := skipped(last, err); err != nil {
			return err
		}
		return s.w.transaction(write{work: alone(moved)})
	}
	half := len(ids) / 2
	if err := s.skipIDs(ctx, cursor, ids[:half], add, skipped); err != nil {
		return err
	}
	return s.skipIDs(ctx, cursor, ids[half:], add, skipped)
}
