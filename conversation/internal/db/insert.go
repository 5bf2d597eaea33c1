package db

import (
	"context"
	"database/sql"

	"parley/conversation/internal/postgres"
)

// Insert executes an INSERT of at most one row into a table with the column id, and returns the
// id of the row. It returns 0 if the statement added none because of ON CONFLICT DO NOTHING. A
// statement that may update a row instead has to return the id by itself: SQLite says which row
// was added last, and reading a row that a statement returns takes three times as long.
func Insert(ctx context.Context, tx *sql.Tx, statement string, args ...any) (id int64, err error) {
	result, err := tx.ExecContext(ctx, statement+Either(``, postgres.ReturningID), args...)
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return 0, err
	}
	return result.LastInsertId()
}
