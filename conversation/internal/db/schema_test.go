package db

import (
	"database/sql"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"parley/internal/postgrestest"
)

// The tables, columns, foreign keys and indexes that only one engine has.
var (
	onlySQLite   = regexp.MustCompile(`^(wal_epoch|messages_fts|messages_ranks|sqlite_|goose_)`)
	onlyPostgres = regexp.MustCompile(`^(index )?(nodes|compatibility|lanes|roles|gates|notices|uncounted|message_words|message_ranks|unindexed_messages|unembedded_messages|goose)(_| )|` +
		`^(sessions owner|channel_health node_id|index sessions_owner) `)
)

// A database that moves from one engine to the other loses nothing, and a later migration is not forgotten for one of them: both
// have the same tables, columns, foreign keys and indexes.
func TestEnginesHaveTheSameSchema(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	leave := func(list []string, only *regexp.Regexp) []string {
		list = slices.DeleteFunc(list, only.MatchString)
		slices.Sort(list)
		return list
	}
	if diff := cmp.Diff(leave(sqliteSchema(t), onlySQLite), leave(postgresSchema(t, url), onlyPostgres)); diff != "" {
		t.Errorf("SQLite (-) and PostgreSQL (+) differ:\n%s", diff)
	}
}

// sqliteSchema lists what SQLite has after all migrations.
func sqliteSchema(t *testing.T) (list []string) {
	path := filepath.Join(t.TempDir(), "schema.db")
	versions, err := SchemaVersions()
	if err == nil {
		err = MakeSchema(t.Context(), path, versions[len(versions)-1])
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	query := func(query string) {
		t.Helper()
		lines, err := Column[string](db.QueryContext(t.Context(), query))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, lines...)
	}
	query(`SELECT m.name || ' ' || c.name || ' ' || CASE c.type WHEN 'INTEGER' THEN 'bigint' WHEN 'BLOB' THEN 'bytea' ELSE lower(c.type) END
			|| CASE WHEN c."notnull" OR c.pk > 0 THEN ' not null' ELSE '' END || coalesce(' default ' || c.dflt_value, '') || CASE WHEN c.pk > 0 THEN ' key ' || c.pk ELSE '' END
		FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'`)
	query(`SELECT m.name || ' ' || f."from" || ' references ' || f."table" || ' ' || f."to" || ' ' || lower(f.on_delete)
		FROM sqlite_schema m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`)
	query(`SELECT 'index ' || name || ' ' || substr(sql, instr(sql, ' ON ') + 4) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`)
	query(`SELECT 'unique ' || m.name || ' (' || (SELECT group_concat(name, ', ') FROM pragma_index_info(i.name)) || ')'
		FROM sqlite_schema m, pragma_index_list(m.name) i WHERE m.type = 'table' AND i.origin = 'u'`)
	return list
}

// postgresSchema lists what PostgreSQL has after all migrations.
func postgresSchema(t *testing.T, url string) (list []string) {
	conn := postgrestest.Connect(t, url)
	files, err := fs.Glob(migrations, "migrations/postgres/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := migrations.ReadFile(file)
		if err == nil {
			_, err = conn.Exec(t.Context(), string(text))
		}
		if err != nil {
			t.Fatal(file, err)
		}
	}
	query := func(query string) {
		t.Helper()
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, lines...)
	}
	const columns = `(SELECT string_agg(a.attname, ', ' ORDER BY k.n) FROM unnest(c.conkey) WITH ORDINALITY AS k(attnum, n)
		JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum)`
	query(`SELECT t.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, NULL) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
			|| coalesce(' default ' || regexp_replace(pg_get_expr(d.adbin, d.adrelid), '^''?([^'']*)''?::.*$|^(.*)$', CASE WHEN pg_get_expr(d.adbin, d.adrelid) LIKE '%::text' THEN '''\1''' ELSE '\1\2' END), '')
			|| coalesce(' key ' || array_position(c.conkey, a.attnum), '')
		FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
			LEFT JOIN pg_constraint c ON c.conrelid = t.oid AND c.contype = 'p'
		WHERE t.relkind = 'r' AND t.relnamespace = 'public'::regnamespace`)
	query(`SELECT c.conrelid::regclass || ' ' || ` + columns + ` || ' references ' || c.confrelid::regclass || ' '
			|| (SELECT attname FROM pg_attribute WHERE attrelid = c.confrelid AND attnum = c.confkey[1])
			|| ' ' || CASE c.confdeltype WHEN 'c' THEN 'cascade' WHEN 'n' THEN 'set null' ELSE 'no action' END
		FROM pg_constraint c WHERE c.contype = 'f' AND c.connamespace = 'public'::regnamespace`)
	query(`SELECT 'index ' || i.relname || ' ' || pg_get_indexdef(i.oid) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
		WHERE i.relnamespace = 'public'::regnamespace AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = i.oid)`)
	query(`SELECT 'unique ' || c.conrelid::regclass || ' (' || ` + columns + ` || ')' FROM pg_constraint c
		WHERE c.contype = 'u' AND c.connamespace = 'public'::regnamespace`)
	for i, line := range list {
		list[i] = asWritten(line)
	}
	return list
}

// asWritten returns an index, as PostgreSQL shows it, in the words of the migrations.
func asWritten(line string) string {
	name, definition, is := strings.Cut(line, " CREATE ")
	if !is || !strings.HasPrefix(name, "index ") {
		return line
	}
	_, definition, _ = strings.Cut(definition, " ON public.")
	definition = strings.Replace(definition, " USING btree", "", 1)
	on, where, partial := strings.Cut(definition, " WHERE ")
	if !partial {
		return fmt.Sprint(name, " ", on)
	}
	where = regexp.MustCompile(`= ANY \(ARRAY\[(.*)\]\)`).ReplaceAllString(where, "IN [$1]")
	where = strings.NewReplacer("(", "", ")", "", "::text", "", "[", "(", "]", ")").Replace(where)
	return fmt.Sprint(name, " ", on, " WHERE ", where)
}
