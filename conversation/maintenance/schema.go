package maintenance

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/conversation/internal/sqlitefile"
)

// table describes a table as its rows are stored in the file.
type table struct {
	name    string
	columns []column // in the order of storage
	byKey   bool     // WITHOUT ROWID: its rows stand in an index
}

type column struct {
	name     string
	kind     string // INTEGER, TEXT or BLOB; goose has others
	required bool   // NOT NULL
	rowID    bool   // the column is an alias of the row ID, and stored as null
}

// object is a table or an index in the file's own list of them.
type object struct {
	kind, name, table string
	root              uint32
	sql               string
}

// searchTables are the tables of the search index. Each is made up of others, whose names begin so.
var searchTables = []string{"messages_fts", "messages_ranks"}

// ofSearch reports whether a table belongs to the search index.
func ofSearch(name string) bool {
	return slices.ContainsFunc(searchTables, func(table string) bool { return name == table || strings.HasPrefix(name, table+"_") })
}

// readSchema reads the list of tables and indexes, and returns the parts that can't be read. It also
// reads pages of the list that are cut off from the rest by damage.
func readSchema(p *sqlitefile.Pages) (list []object, damage []sqlitefile.Damage, err error) {
	add := func(r sqlitefile.Row) error {
		if o, ok := parseObject(r); ok && !slices.ContainsFunc(list, func(other object) bool { return other.name == o.name }) {
			list = append(list, o)
		}
		return nil
	}
	w := sqlitefile.NewWalker(p)
	if damage, err = w.Rows(schemaRoot, add); err != nil || len(damage) == 0 {
		return list, damage, err
	}
	err = w.Orphans(func(rows []sqlitefile.Row) error {
		for _, r := range rows {
			if err := add(r); err != nil {
				return err
			}
		}
		return nil
	})
	return list, damage, err
}

const schemaRoot = 1

func parseObject(r sqlitefile.Row) (o object, ok bool) {
	if len(r.Values) != 5 {
		return o, false
	}
	o.kind, _ = r.Values[0].(string)
	o.name, _ = r.Values[1].(string)
	o.table, _ = r.Values[2].(string)
	root, _ := r.Values[3].(int64)
	o.sql, _ = r.Values[4].(string)
	if o.kind != "table" && o.kind != "index" || root < 2 || root > math.MaxUint32 {
		return o, false
	}
	o.root = uint32(root)
	return o, true
}

// reference returns the tables of a schema's version by name.
func reference(ctx context.Context, version int64) (tables map[string]table, err error) {
	dir, err := os.MkdirTemp("", "parley-schema")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "schema.db")
	if err := db.MakeSchema(ctx, path, version); err != nil {
		return nil, err
	}
	return describe(ctx, path, nil)
}

// describe describes the tables of a database: all that it has, or those of
// the list, in the form that the list says.
func describe(ctx context.Context, path string, list []object) (tables map[string]table, err error) {
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, o := range list {
		if o.kind == "table" && !derived(o.name) {
			_, _ = db.ExecContext(ctx, o.sql) // a damaged one is described by the reference
		}
	}
	return describeTables(ctx, db)
}

// derived reports whether a table holds nothing but what the others say, or
// belongs to SQLite.
func derived(name string) bool {
	return strings.HasPrefix(name, "sqlite_") || ofSearch(name)
}

// describeTables describes the tables of a database, except for derived ones.
func describeTables(ctx context.Context, q db.Querier) (tables map[string]table, err error) {
	// The key of a table WITHOUT ROWID is stored before its other columns.
	rows, err := q.QueryContext(ctx, `SELECT t.name, t.wr, c.name, c.type, c."notnull", c.pk
		FROM pragma_table_list t, pragma_table_info(t.name) c WHERE t.schema = 'main' AND t.type = 'table'
		ORDER BY t.name, t.wr AND c.pk = 0, t.wr * c.pk, c.cid`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	tables, keys := map[string]table{}, map[string]int{}
	for rows.Next() {
		var t table
		var c column
		var pk int
		if err := rows.Scan(&t.name, &t.byKey, &c.name, &c.kind, &c.required, &pk); err != nil {
			return nil, err
		}
		if derived(t.name) {
			continue
		}
		if pk > 0 {
			keys[t.name]++
			c.rowID = !t.byKey && c.kind == "INTEGER"
		}
		t.columns = append(tables[t.name].columns, c)
		tables[t.name] = t
	}
	for name, t := range tables {
		for i := range t.columns {
			t.columns[i].rowID = t.columns[i].rowID && keys[name] == 1
		}
	}
	return tables, rows.Err()
}

// fits reports whether a row can be one of the table. Rows that are older than a
// column end before it.
func (t table) fits(values []any) bool {
	if len(values) > len(t.columns) || len(values) < 2 {
		return false
	}
	for i, value := range values {
		c := t.columns[i]
		switch value.(type) {
		case nil:
			if c.required && !c.rowID {
				return false
			}
		case int64:
			if c.rowID || c.kind == "TEXT" || c.kind == "BLOB" {
				return false
			}
		case string:
			if c.kind == "INTEGER" || c.kind == "BLOB" {
				return false
			}
		case []byte:
			if c.kind == "INTEGER" {
				return false
			}
		default:
			return false
		}
	}
	return true
}
