package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"parley/conversation/internal/postgres"
	"parley/internal/postgrestest"
)

// openPipe opens a pipe to a new database with a table. settings are added to its URL.
func openPipe(t *testing.T, settings string) (*postgres.Pipe, *sql.DB) {
	t.Helper()
	url := postgrestest.Database(t)
	db := open(t, url)
	_, err := db.ExecContext(t.Context(), `CREATE TABLE kept (id bigint PRIMARY KEY, words text)`)
	must(t, err)
	config, err := pgx.ParseConfig(url + settings)
	must(t, err)
	p, err := postgres.NewConnector(config).Pipe(t.Context())
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p, db
}

type step = func(ctx context.Context, tx postgres.Tx) error

// transact executes tasks in one transaction that begins with the statement fence.
func transact(p *postgres.Pipe, fence string, tasks ...postgres.Task) error {
	p.Begin(fence, []any{1}, func() error { return errFenced })
	if err := p.Run(tasks...); err != nil {
		return errors.Join(err, p.Rollback())
	}
	if err := p.Commit(); err != nil {
		return errors.Join(err, p.Rollback())
	}
	return nil
}

var errFenced = errors.New("fenced")

const open1 = `SELECT 1 WHERE 1 = $1`

// add stores a row, and checks the number of rows that the statement reports.
func add(id int) step {
	return func(ctx context.Context, tx postgres.Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO kept (id, words) VALUES (?, ?)`, id, fmt.Sprint("row ", id))
		if err != nil {
			return fmt.Errorf("add %d: %w", id, err)
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return fmt.Errorf("add %d: %d rows, %w", id, n, err)
		}
		return nil
	}
}

// addReturning stores a row, and checks the id that the statement returns.
func addReturning(id int) step {
	return func(ctx context.Context, tx postgres.Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO kept (id) VALUES (?)`+postgres.ReturningID, id)
		if err != nil {
			return err
		}
		if got, err := result.LastInsertId(); err != nil || got != int64(id) {
			return fmt.Errorf("add %d: the id %d, %w", id, got, err)
		}
		return nil
	}
}

// addAhead stores a row without waiting for the statement's result.
func addAhead(id int) step {
	return func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO kept (id, words) VALUES (?, ?)`, id, "ahead")
		return err
	}
}

func count(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM kept`).Scan(&n))
	return n
}

// Each task gets its own answers, and each step sees what the step before has stored, with and without a pooler that does
// not allow prepared statements.
func TestPipeCarriesOutTasksTogether(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"", "&default_query_exec_mode=cache_describe"} {
		p, db := openPipe(t, settings)
		for round := range 3 {
			var tasks []postgres.Task
			for i := range 20 {
				id := round*100 + i
				tasks = append(tasks, postgres.Task{Ahead: i%2 == 0, Do: []step{add(id), addAhead(id + 50), addReturning(id + 1000), func(ctx context.Context, tx postgres.Tx) error {
					var words string
					if err := tx.QueryRowContext(ctx, `SELECT words FROM kept WHERE id = ?`, id).Scan(&words); err != nil || words != fmt.Sprint("row ", id) {
						return fmt.Errorf("row %d reads %q, %w", id, words, err)
					}
					_, err := tx.ExecContext(ctx, `UPDATE kept SET words = 'seen' WHERE id = ?`, id+50)
					return err
				}}})
			}
			must(t, transact(p, open1, tasks...))
		}
		var seen int
		must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM kept WHERE words = 'seen'`).Scan(&seen))
		if seen != 60 || count(t, db) != 180 {
			t.Errorf("%s: %d rows were seen, %d are stored", settings, seen, count(t, db))
		}
	}
}

// When a statement fails, whether or not its result is waited for, or a task returns an error, nothing is stored, the task gets the
// error, and the next transaction works.
func TestPipeReportsTaskThatFailed(t *testing.T) {
	t.Parallel()
	p, db := openPipe(t, "")
	refused := errors.New("refused")
	slow := postgres.Task{Do: []step{add(1), add(2), add(3)}}
	for name, task := range map[string]postgres.Task{
		"add 1: ":       {Do: []step{add(4), add(1)}},
		"duplicate key": {Ahead: true, Do: []step{addAhead(1)}},
		"refused":       {Ahead: true, Do: []step{addAhead(5), add(6), func(context.Context, postgres.Tx) error { return refused }}},
		"relation \"none\" does": {Do: []step{func(ctx context.Context, tx postgres.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT id FROM none WHERE id = ?`, 1).Scan(new(int))
		}}},
		"argument for ?1 missing": {Do: []step{func(ctx context.Context, tx postgres.Tx) error {
			_, err := tx.ExecContext(ctx, `DELETE FROM kept WHERE id = ?`)
			return err
		}}},
		"invalid input syntax for": {Do: []step{func(ctx context.Context, tx postgres.Tx) error {
			_, err := tx.ExecContext(ctx, `DELETE FROM kept WHERE id = CAST(CAST(? AS text) AS bigint)`, "x")
			return err
		}}},
	} {
		err := transact(p, open1, slow, task)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := transact(p, `SELECT 1 WHERE 0 = $1`, postgres.Task{Ahead: true, Do: []step{addAhead(7)}}); !errors.Is(err, errFenced) {
		t.Error(err)
	}
	if n := count(t, db); n != 0 {
		t.Errorf("%d rows are stored", n)
	}
	must(t, transact(p, open1, slow))
	if n := count(t, db); n != 3 {
		t.Errorf("%d rows are stored, want 3", n)
	}
}

// A long task does not collect all its statements in memory, and a statement after a change of a table uses the changed table.
func TestPipeGoesOnAfterTablesChange(t *testing.T) {
	t.Parallel()
	p, db := openPipe(t, "")
	var many []step
	for i := range 1000 {
		many = append(many, addAhead(i))
	}
	must(t, transact(p, open1, postgres.Task{Ahead: true, Do: many}))
	all := func(ctx context.Context, tx postgres.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT * FROM kept WHERE id < ?`, 10)
		if err == nil {
			err = rows.Close()
		}
		return err
	}
	must(t, transact(p, open1, postgres.Task{Do: []step{all}}))
	_, err := db.ExecContext(t.Context(), `ALTER TABLE kept ADD COLUMN more text`)
	must(t, err)
	if err := transact(p, open1, postgres.Task{Do: []step{all}}); err != nil && postgres.Code(err) != "0A000" {
		t.Error(err)
	}
	must(t, transact(p, open1, postgres.Task{Do: []step{all, func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE later (id bigint); INSERT INTO later VALUES (1)`)
		return err
	}, func(ctx context.Context, tx postgres.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT id FROM later WHERE id = ?`, 1).Scan(new(int))
	}}}))
	if n := count(t, db); n != 1000 {
		t.Errorf("%d rows are stored", n)
	}
}
