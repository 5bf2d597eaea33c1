package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
)

// CopyRows adds rows to a table by COPY, in the present transaction of the connection.
func CopyRows(ctx context.Context, to *sql.Conn, table string, columns []string, rows [][]any) error {
	return to.Raw(func(c any) error {
		_, err := c.(*conn).pgx.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(rows))
		return err
	})
}
