package move

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"parley/conversation/internal/db"
)

// notMoved has the tables of both engines that say nothing of what people have stored: they concern one process or
// one engine, or are made anew.
var notMoved = []string{
	"goose_db_version",
	"channel_health", // of the processes that serve a channel
	"http_server",    // likewise
	"file_pages",     // of the search index
	"unread_files",   // are filled for the new index
	"unused_paths",   // of the folder beside a SQLite file
}

// table is a table that both engines have.
type table struct {
	name    string
	columns []column
	key     []int // the places of the primary key's columns in columns
	parents []string
}

type column struct {
	name string
	kind string // INTEGER, TEXT, BLOB
}

// readTables returns the tables that are moved, each one after those that its rows refer to.
func readTables(ctx context.Context, file, server db.Querier) ([]table, error) {
	names, err := db.Column[string](file.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`))
	if err != nil {
		return nil, err
	}
	shared, err := db.Column[string](server.QueryContext(ctx, `SELECT CAST(table_name AS text) FROM information_schema.tables WHERE table_schema = current_schema()`))
	if err != nil {
		return nil, err
	}
	var list []table
	for _, name := range names {
		if slices.Contains(notMoved, name) || !slices.Contains(shared, name) {
			continue
		}
		t, err := readTable(ctx, file, name)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		list = append(list, t)
	}
	return sortTables(list)
}

func readTable(ctx context.Context, file db.Querier, name string) (table, error) {
	t := table{name: name}
	rows, err := file.QueryContext(ctx, `SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid`, name)
	if err != nil {
		return t, err
	}
	defer rows.Close()
	places := map[int]int{} // of the columns of the key, by their number in it
	for rows.Next() {
		var c column
		var pk int
		if err := rows.Scan(&c.name, &c.kind, &pk); err != nil {
			return t, err
		}
		if pk > 0 {
			places[pk] = len(t.columns)
		}
		t.columns = append(t.columns, c)
	}
	if err := rows.Err(); err != nil {
		return t, err
	}
	for n := 1; n <= len(places); n++ {
		t.key = append(t.key, places[n])
	}
	t.parents, err = db.Column[string](file.QueryContext(ctx, `SELECT DISTINCT "table" FROM pragma_foreign_key_list(?)`, name))
	return t, err
}

// sortTables puts each table behind its parents.
func sortTables(list []table) (sorted []table, _ error) {
	placed := map[string]bool{}
	for len(list) > 0 {
		next := slices.IndexFunc(list, func(t table) bool {
			return !slices.ContainsFunc(t.parents, func(parent string) bool { return !placed[parent] })
		})
		if next < 0 {
			return nil, fmt.Errorf("the tables %v refer to each other in a circle", list)
		}
		placed[list[next].name] = true
		sorted, list = append(sorted, list[next]), slices.Delete(list, next, next+1)
	}
	return sorted, nil
}

// names returns the names of the columns.
func (t table) names() []string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return names
}

// column returns the place of a column.
func (t table) column(name string) int { return slices.Index(t.names(), name) }

// quoted returns names for SQL, since some are words of SQL.
func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// row is a row of a table.
type row struct {
	key    []any // by which the next rows of the source are found
	values []any // int64, string, []byte or nil, by the kinds of the columns
}

func (r row) size() (bytes int) {
	for _, value := range r.values {
		switch v := value.(type) {
		case string:
			bytes += len(v)
		case []byte:
			bytes += len(v)
		default:
			bytes += 8
		}
	}
	return bytes
}

// read reads the rows of a table in the order of their keys, after the one of a key, or all for nil.
func (t table) read(ctx context.Context, q db.Querier, after []any) iter.Seq2[row, error] {
	var keys []string
	for _, place := range t.key {
		keys = append(keys, t.columns[place].name)
	}
	query := `SELECT ` + quoted(t.names()) + ` FROM "` + t.name + `"`
	if after != nil {
		query += ` WHERE (` + quoted(keys) + `) > (` + marks(len(keys)) + `)`
	}
	query += ` ORDER BY ` + quoted(keys)
	return func(yield func(row, error) bool) {
		rows, err := q.QueryContext(ctx, query, after...)
		if err != nil {
			yield(row{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			r, err := t.scan(rows)
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(row{}, err)
		}
	}
}

func (t table) scan(rows *sql.Rows) (r row, err error) {
	r.values = make([]any, len(t.columns))
	into := make([]any, len(t.columns))
	for i := range r.values {
		into[i] = &r.values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return r, err
	}
	for i, c := range t.columns {
		if r.values[i], err = c.typed(r.values[i]); err != nil {
			return r, err
		}
	}
	for _, place := range t.key {
		r.key = append(r.key, r.values[place])
	}
	return r, nil
}

// typed returns a value as a column holds it. SQLite also stores values of other types in it.
func (c column) typed(value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case int64:
		if c.kind == "TEXT" {
			return strconv.FormatInt(v, 10), nil
		}
		if c.kind == "INTEGER" {
			return v, nil
		}
	case string:
		switch c.kind {
		case "TEXT":
			return v, nil
		case "BLOB":
			return []byte(v), nil
		}
	case []byte:
		switch c.kind {
		case "TEXT":
			return string(v), nil
		case "BLOB":
			return v, nil
		}
	}
	return nil, fmt.Errorf("the column %s of type %s holds %.100v (%T): `gateway verify` says what is damaged", c.name, c.kind, value, value)
}
