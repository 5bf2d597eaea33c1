package db

import (
	"context"
	"testing"
)

// A database that was filled a moment ago has statistics of its tables, without waiting for the server's autovacuum.
func TestFilledTablesAreAnalyzed(t *testing.T) {
	t.Parallel()
	d := openServer(t, emptyDatabase.Database(t)+"&synchronous_commit=off", patience{})
	rows := func() (n float64) {
		t.Helper()
		if err := d.QueryRowContext(t.Context(), `SELECT reltuples FROM pg_class WHERE relname = 'written'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	fill := func(n int) {
		t.Helper()
		err := d.Write(t.Context(), func(ctx context.Context, tx Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO written SELECT generate_series(1, ?)`, n)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		d.engine.(*postgresServer).analyze(t.Context())
	}
	fill(3)
	if n := rows(); n >= 0 {
		t.Errorf("a small table has statistics of %g rows", n)
	}
	fill(5000)
	if n := rows(); n != 5003 {
		t.Errorf("statistics say %g rows", n)
	}
	fill(50_000)
	if n := rows(); n != 55_003 {
		t.Errorf("statistics of the grown table say %g rows", n)
	}
}
