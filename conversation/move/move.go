// Package move copies a whole database from a SQLite file to a PostgreSQL server, or back.
//
// [Move] copies table by table in the order of the primary keys, in batches of one transaction
// each. The target notes after which row it goes on, so a move that was killed is finished by the
// next one. At the end both databases are read side by side, and every row is compared.
package move

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"parley/conversation/internal/db"
	"parley/conversation/maintenance"
)

// The steps that Move reports.
const (
	Moving    maintenance.Step = "Moving"
	Comparing                  = maintenance.Comparing
)

// Config names two databases: one is the path of a SQLite file, the other one the URL of a
// PostgreSQL database.
type Config struct {
	From, To     string
	PasswordFile string // with the password of the URL's user; "" = none
	Log          *slog.Logger
	Progress     maintenance.Progress
}

// Result says what was moved.
type Result struct {
	Sessions, Conversations, Messages, Files int64

	Rows      int64 // rows of all tables, which were compared after the move
	Continued int64 // rows of Rows that an interrupted move had copied
	Restarted bool  // an interrupted move was begun anew, since its source has changed
	LostFiles int64 // files whose bytes are missing in the folder beside the source
	Replaced  int64 // texts with bytes that PostgreSQL can't store, which have a replacement character in their place
}

// mover is one call of Move.
type mover struct {
	Config
	from   source
	to     target
	tables []table
	result Result

	replaced int64 // texts that could not be stored as they are, so far
}

// Move copies the database From, which is not changed, to To. Nobody else may have one of them open. To
// is empty or missing, or has what an interrupted move of the same database has left.
func Move(ctx context.Context, c Config) (_ Result, err error) {
	if db.IsURL(c.From) == db.IsURL(c.To) {
		return Result{}, errors.New("one database must be a SQLite file, and the other the URL of a PostgreSQL database, such as postgres://parley@db.example.org/parley")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	m := &mover{Config: c}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.open(ctx); err != nil {
		return Result{}, err
	}
	if err := m.copy(ctx); err != nil {
		return Result{}, err
	}
	if err := m.compare(ctx); err != nil {
		return Result{}, err
	}
	if err := m.count(ctx); err != nil {
		return Result{}, err
	}
	return m.result, m.to.finish(ctx, m)
}

// open opens the source first: what can't be read needs no target.
func (m *mover) open(ctx context.Context) (err error) {
	fromServer := db.IsURL(m.From)
	if fromServer {
		m.from, err = openServerSource(ctx, db.Config{Path: m.From, Secret: m.PasswordFile, Log: m.Log})
	} else {
		m.from, err = openFileSource(ctx, m.From)
	}
	if err != nil {
		return err
	}
	if fromServer {
		m.to, err = openFileTarget(ctx, m.To)
	} else {
		m.to, err = openServerTarget(ctx, db.Config{Path: m.To, Secret: m.PasswordFile, Log: m.Log})
	}
	if err != nil {
		return err
	}
	file, server := db.Querier(m.from), db.Querier(m.to)
	if fromServer {
		file, server = server, file
	}
	m.tables, err = readTables(ctx, file, server)
	return err
}

func (m *mover) close() error {
	var errs []error
	if m.to != nil {
		errs = append(errs, m.to.close())
	}
	if m.from != nil {
		errs = append(errs, m.from.close())
	}
	return errors.Join(errs...)
}

// The size of a batch, which is held in memory and committed as a whole.
const (
	batchRows  = 2000
	batchBytes = 4 << 20
)

// copy adds to the target what it lacks.
func (m *mover) copy(ctx context.Context) error {
	at, restarted, err := m.to.begin(ctx, m)
	if err != nil {
		return err
	}
	m.result.Continued, m.result.Restarted = at.rows, restarted
	total, err := m.rowsOf(ctx, m.from)
	if err != nil {
		return err
	}
	reached := at.table == ""
	for _, t := range m.tables {
		after := []any(nil)
		switch {
		case t.name == at.table:
			reached, after = true, at.after
		case !reached:
			continue
		}
		if err := m.copyTable(ctx, t, after, &at, total); err != nil {
			return fmt.Errorf("table %s: %w", t.name, db.Explain(err))
		}
	}
	return nil
}

func (m *mover) copyTable(ctx context.Context, t table, after []any, at *position, total int64) error {
	var batch []row
	var bytes int
	add := func() error {
		if len(batch) == 0 {
			return nil
		}
		next := position{table: t.name, after: batch[len(batch)-1].key, rows: at.rows + int64(len(batch))}
		if err := m.to.add(ctx, t, batch, *at, next); err != nil {
			return err
		}
		*at, batch, bytes = next, batch[:0], 0
		m.Progress.Report(Moving, at.rows, max(total, at.rows))
		return nil
	}
	for r, err := range m.rows(ctx, t, after) {
		if err != nil {
			return err
		}
		batch, bytes = append(batch, r), bytes+r.size()
		if len(batch) >= batchRows || bytes >= batchBytes {
			if err := add(); err != nil {
				return err
			}
		}
	}
	return add()
}

// rowsOf counts the rows of all tables that are moved, roughly: a large file counts as one.
func (m *mover) rowsOf(ctx context.Context, q db.Querier) (total int64, err error) {
	for _, t := range m.tables {
		var rows int64
		if err := q.QueryRowContext(ctx, `SELECT count(*) FROM `+t.name).Scan(&rows); err != nil {
			return 0, err
		}
		total += rows
	}
	return total, nil
}

// count counts what people ask for.
func (m *mover) count(ctx context.Context) error {
	return m.to.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM conversations WHERE deleted = 0),
		(SELECT count(*) FROM messages), (SELECT count(*) FROM files WHERE blob_id IS NOT NULL)`).
		Scan(&m.result.Sessions, &m.result.Conversations, &m.result.Messages, &m.result.Files)
}
