package db

import (
	"context"
	"database/sql"
	"errors"

	"parley/conversation/internal/postgres"
)

// Insert executes an INSERT of at most one row into a table with the column id, and returns the
// id of the row. It returns 0 if the statement added none because of ON CONFLICT DO NOTHING. It is
// not for a statement that may update a row instead, since SQLite then returns the id of the row
// that was added last; such a statement needs a RETURNING clause, which takes three times as long.
func Insert(ctx context.Context, tx Tx, statement string, args ...any) (id int64, err error) {
	result, err := tx.ExecContext(ctx, statement+Either(``, postgres.ReturningID), args...)
	if err != nil {
		return 0, err
	}
	return idOf(result)
}

func idOf(result sql.Result) (id int64, err error) {
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return 0, err
	}
	return result.LastInsertId()
}

// Require executes a statement that must change a row, or, if it is a SELECT 1, return one. Otherwise the transaction fails with the
// error that refused returns: at once, or on PostgreSQL when it is committed.
func Require(ctx context.Context, tx Tx, refused func() error, statement string, args ...any) error {
	if done, err := postgres.Require(ctx, tx, refused, statement, args...); done {
		return err
	}
	n, err := requirement(ctx, tx, statement, args...)
	if err == nil && n == 0 {
		err = refused()
	}
	return err
}

// requirement returns how many rows a statement has changed, or what a SELECT 1 returns, 0 for no row.
func requirement(ctx context.Context, tx Tx, statement string, args ...any) (n int64, err error) {
	if !postgres.IsSelect(statement) {
		return Changed(tx.ExecContext(ctx, statement, args...))
	}
	if err = tx.QueryRowContext(ctx, statement, args...).Scan(&n); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return n, err
}

// Changed returns how many rows a statement has changed. Its parameters are the results of ExecContext.
func Changed(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Added is the row that InsertLater has added.
type Added struct {
	ID      int64 // 0 = no row was added
	Unknown bool  // the ID is not known: the transaction has not ended, or the server's last answer was lost
}

// InsertLater is Insert for a row whose id the transaction itself does not need. On PostgreSQL it sets row when the
// transaction is committed, so that the INSERT and the COMMIT share a round trip. If the answer of the server was lost,
// but the transaction is found to be committed, the write has no error and row is Unknown; then the caller must look for
// the row.
func InsertLater(ctx context.Context, tx Tx, row *Added, statement string, args ...any) error {
	result, err := tx.ExecContext(ctx, statement+Either(``, postgres.ReturningID), args...)
	if err != nil {
		return err
	}
	*row = Added{Unknown: true}
	later := postgres.AtCommit(ctx, func() {
		id, err := idOf(result)
		*row = Added{ID: id, Unknown: err != nil}
	})
	if later {
		return nil
	}
	id, err := idOf(result)
	*row = Added{ID: id}
	return err
}
