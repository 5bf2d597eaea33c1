package db

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mattn/go-sqlite3"
)

// A disk or another program may damage pages of the file. Reading such a page again does not
// help, so readers skip it, and the store tells the operator.

// damages lists the damaged parts of the database that this process has found.
type damages struct {
	log *slog.Logger

	mu    sync.Mutex
	parts []string // in the order in which they were found
}

// maxDamages is how many parts are listed, at most. More of them would not help the operator.
const maxDamages = 50

func newDamages(log *slog.Logger) *damages {
	return &damages{log: log}
}

// met adds a part that can't be read, and logs it the first time.
func (d *damages) met(part string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.parts) >= maxDamages || slices.Contains(d.parts, part) {
		return
	}
	d.parts = append(d.parts, part)
	d.log.Error("database damaged", "part", part, "error", err, "advice", DamageAdvice)
}

// list returns the damaged parts.
func (d *damages) list() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.parts)
}

// connector opens connections that report damage. If files is set, it opens them only while
// the database is in place.
type connector struct {
	files   *openFiles
	damages *damages
	dsn     string
}

// Connect implements driver.Connector.
func (c connector) Connect(context.Context) (driver.Conn, error) {
	var conn driver.Conn
	open := func() (err error) {
		conn, err = c.Driver().Open(c.dsn)
		return err
	}
	var err error
	if c.files != nil {
		err = c.files.opens(open)
	} else {
		err = open()
	}
	if err != nil {
		return nil, err
	}
	return &observedConn{SQLiteConn: conn.(*sqlite3.SQLiteConn), damages: c.damages}, nil
}

// Driver implements driver.Connector.
func (connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// observedConn is a SQLite connection that reports damage. It embeds the connection for the
// interfaces of database/sql that this implements.
type observedConn struct {
	*sqlite3.SQLiteConn
	damages *damages
}

func (c *observedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.SQLiteConn.QueryContext(ctx, query, args)
	if err != nil {
		c.damages.ofQuery(query, err)
		return nil, err
	}
	return &observedRows{SQLiteRows: rows.(*sqlite3.SQLiteRows), damages: c.damages, query: query}, nil
}

func (c *observedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.SQLiteConn.ExecContext(ctx, query, args)
	c.damages.ofQuery(query, err)
	return result, err
}

type observedRows struct {
	*sqlite3.SQLiteRows
	damages *damages
	query   string
}

func (r *observedRows) Next(values []driver.Value) error {
	err := r.SQLiteRows.Next(values)
	r.damages.ofQuery(r.query, err)
	return err
}

var tableInQuery = regexp.MustCompile(`(?i)\b(?:FROM|INTO|UPDATE)\s+([a-z_]+)`)

// ofQuery adds the tables of a query that failed because of damage. SQLite does not say which
// page is damaged.
func (d *damages) ofQuery(query string, err error) {
	if err == nil || err == io.EOF || !IsDamaged(err) { // io.EOF ends the rows of each query
		return
	}
	var tables []string
	for _, found := range tableInQuery.FindAllStringSubmatch(query, -1) {
		if !slices.Contains(tables, found[1]) {
			tables = append(tables, found[1])
		}
	}
	part := "the file"
	if len(tables) > 0 {
		part = "the table " + strings.Join(tables, " or ")
	}
	if strings.Contains(query, "messages_fts") {
		part = "the search index"
	}
	d.met(part, err)
}

// ReadableOf calls read for rows by their ids, and returns the results in the order of the ids, without rows on damaged
// pages. If read fails because of damage, it is called again for halves of the ids.
func ReadableOf[T any](ids []int64, read func(ids []int64) ([]T, error)) ([]T, error) {
	list, err := read(ids)
	if !IsDamaged(err) || len(ids) == 0 {
		return list, err
	}
	if len(ids) == 1 {
		return nil, nil
	}
	half := len(ids) / 2
	first, err := ReadableOf(ids[:half], read)
	if err != nil {
		return nil, err
	}
	second, err := ReadableOf(ids[half:], read)
	return append(first, second...), err
}

// ReadableIDs returns up to n ids of a table that are greater than after, and skips those on
// damaged pages. It returns none if no readable row follows.
func ReadableIDs(ctx context.Context, q Querier, table string, after int64, n int) (ids []int64, err error) {
	ids, err = idsAfter(ctx, q, table, after, n)
	if len(ids) == 0 && IsDamaged(err) {
		var next int64
		if next, err = behindDamage(ctx, q, table, after); err != nil || next == 0 {
			return nil, err
		}
		ids, err = idsAfter(ctx, q, table, next-1, n)
	}
	if len(ids) > 0 && IsDamaged(err) {
		err = nil // the next call begins after these ids, at the damage
	}
	return ids, err
}

// idsAfter returns the ids up to the first damaged page, with the error if there is one.
func idsAfter(ctx context.Context, q Querier, table string, after int64, n int) (ids []int64, err error) {
	return Column[int64](q.QueryContext(ctx, fmt.Sprintf(`SELECT id FROM %s NOT INDEXED WHERE id > ? ORDER BY id LIMIT ?`, table), after, n))
}

// behindDamage returns the first readable id after the damaged pages that follow an id, or 0 if
// no readable row follows. It tries ids at growing distances, and then searches between the last
// damaged and the first readable one; each attempt reads one page.
func behindDamage(ctx context.Context, q Querier, table string, after int64) (id int64, err error) {
	find := func(from int64) (int64, error) {
		ids, err := idsAfter(ctx, q, table, from-1, 1)
		if len(ids) > 0 {
			return ids[0], nil
		}
		return 0, err
	}
	damaged, readable, step := after+1, int64(0), int64(1)
	for readable == 0 {
		if damaged > math.MaxInt64-step {
			return 0, nil
		}
		switch found, err := find(damaged + step); {
		case err == nil && found == 0: // behind the last row
			return 0, nil
		case err == nil:
			readable = damaged + step
		case !IsDamaged(err):
			return 0, err
		default:
			damaged += step
			step *= 2
		}
	}
	for damaged+1 < readable {
		middle := damaged + (readable-damaged)/2
		switch _, err := find(middle); {
		case err == nil:
			readable = middle
		case !IsDamaged(err):
			return 0, err
		default:
			damaged = middle
		}
	}
	return find(readable)
}
