package db

import (
	"context"
	"database/sql"
	"errors"

	"parley/conversation/internal/postgres"
)

// Insert executes an INSERT of at most one row into a table with the column id, and returns the
// id of the row. It returns 0 if the statement added none because of ON CONFLICT DO NOTHING. A
// statement that may update a row instead has to return the id by itself: SQLite says which row
// was added last, and reading a row that a statement returns takes three times as long.
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

// Require carries out a statement that must change a row, or, if it is SELECT 1, return one. Otherwise the transaction fails with
// the error of refused: at once, or when it is committed.
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

// Changed returns how many rows a statement has changed.
func Changed(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Added is the row that InsertLater has added.
type Added struct {
	ID      int64 // 0 = no row was added
	Unknown bool  // only until the transaction has ended, and where the server's last answer was lost
}

// InsertLater is Insert for a row whose id nothing in the transaction needs: it sets row when the transaction is
// committed, so that a server answers the INSERT and the COMMIT together. After a write without an error, row is
// Unknown if the transaction was found to be committed although no answer came. Then the caller looks for the
// row.
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
