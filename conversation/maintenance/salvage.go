package maintenance

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlitefile"
)

// salvage reads all rows that can be read from the pages of a database.
type salvage struct {
	pages    *sqlitefile.Pages
	progress Progress
	row      func(t table, id int64, values []any) error // is called with each row: its values by column, of which a row may lack the last

	version  int64 // version of the schema
	objects  []object
	tables   map[string]table
	damage   map[string][]sqlitefile.Damage // damage of each table or index, by its name
	contents []sqlitefile.Damage            // damage of the file's list of tables and indexes
	tally    tally
}

// run reads everything once.
func (s *salvage) run(ctx context.Context) (err error) {
	s.damage, s.tally = map[string][]sqlitefile.Damage{}, newTally()
	if s.objects, s.contents, err = readSchema(s.pages); err != nil {
		return err
	}
	if err := s.readVersion(); err != nil {
		return err
	}
	if s.tables, err = describe(ctx, ":memory:", s.objects); err != nil {
		return err
	}
	if len(s.contents) > 0 { // tables may be missing in the list
		known, err := reference(ctx, s.version)
		if err != nil {
			return err
		}
		maps.Copy(known, s.tables)
		s.tables = known
	}
	return s.walk(ctx)
}

// readVersion finds the version of the schema: the newest that this gateway
// knows, where the list of what was applied is not whole.
func (s *salvage) readVersion() error {
	known, err := db.SchemaVersions()
	if err != nil {
		return err
	}
	s.version = known[len(known)-1]
	root := s.root("goose_db_version")
	if root == 0 {
		return nil
	}
	var applied []int64
	damage, err := sqlitefile.NewWalker(s.pages).Rows(root, func(r sqlitefile.Row) error {
		if len(r.Values) > 1 {
			if version, ok := r.Values[1].(int64); ok && version > 0 {
				applied = append(applied, version)
			}
		}
		return nil
	})
	slices.Sort(applied)
	if len(damage) == 0 && len(applied) > 0 && len(applied) <= len(known) && slices.Equal(applied, known[:len(applied)]) {
		s.version = applied[len(applied)-1]
	}
	return err
}

// root returns the first page of a table or an index, 0 if it is not known.
func (s *salvage) root(name string) uint32 {
	for _, o := range s.objects {
		if o.name == name {
			return o.root
		}
	}
	return 0
}

// walk reads the tables, then the indexes, then what damage has cut off.
func (s *salvage) walk(ctx context.Context) error {
	w := sqlitefile.NewWalker(s.pages)
	if _, err := w.Rows(schemaRoot, func(sqlitefile.Row) error { return nil }); err != nil { // its pages are seen
		return err
	}
	told := int64(0)
	visit := func() error {
		if told++; told%4096 == 0 {
			s.progress.Report(Reading, w.Seen(), int64(s.pages.Count))
			return ctx.Err()
		}
		return nil
	}
	for _, t := range s.inOrder() {
		if err := s.readTable(w, t, visit); err != nil {
			return err
		}
	}
	for _, o := range s.objects {
		if err := s.readRest(w, o, visit); err != nil {
			return err
		}
	}
	return s.adopt(w)
}

// inOrder returns the tables, those that others refer to first.
func (s *salvage) inOrder() []table {
	first := []string{"sessions", "conversations", "runs", "messages"}
	rank := func(name string) int {
		if i := slices.Index(first, name); i >= 0 {
			return i
		}
		return len(first)
	}
	return slices.SortedFunc(maps.Values(s.tables), func(a, b table) int {
		return cmp.Or(cmp.Compare(rank(a.name), rank(b.name)), strings.Compare(a.name, b.name))
	})
}

func (s *salvage) readTable(w *sqlitefile.Walker, t table, visit func() error) error {
	root := s.root(t.name)
	if root == 0 {
		s.damage[t.name] = []sqlitefile.Damage{{Below: true, After: math.MinInt64, UpTo: math.MaxInt64, Err: errors.New("it can't be found")}}
		return nil
	}
	if t.byKey {
		damage, err := w.Entries(root, func(values []any) error { return errors.Join(visit(), s.take(t, 0, values)) })
		s.damage[t.name] = append(s.damage[t.name], damage...)
		return err
	}
	damage, err := w.Rows(root, func(r sqlitefile.Row) error { return errors.Join(visit(), s.take(t, r.ID, r.Values)) })
	s.damage[t.name] = append(s.damage[t.name], damage...)
	return err
}

// isGateways reports whether any table of the gateway's was found.
func (s *salvage) isGateways() bool {
	return slices.ContainsFunc(s.objects, func(o object) bool {
		return slices.Contains([]string{"sessions", "conversations", "messages", "inbox", "outbox", "goose_db_version"}, o.name)
	})
}

// take passes on a row whose id is in its place.
func (s *salvage) take(t table, id int64, values []any) error {
	if !t.fits(values) { // a page of another table stands in its place
		s.damage[t.name] = append(s.damage[t.name], sqlitefile.Damage{After: id - 1, UpTo: id, Err: errors.New("a row is not of this table")})
		return nil
	}
	for i := range values {
		if t.columns[i].rowID {
			values[i] = id
		}
	}
	s.tally.row(t, id, values)
	if s.row == nil {
		return nil
	}
	return s.row(t, id, values)
}

// readRest reads an index, or a table of the search index.
func (s *salvage) readRest(w *sqlitefile.Walker, o object, visit func() error) (err error) {
	if _, read := s.tables[o.name]; read {
		return nil
	}
	switch {
	case o.kind == "index" || strings.Contains(o.sql, "WITHOUT ROWID"):
		s.damage[o.name], err = w.Entries(o.root, func(values []any) error {
			s.tally.entry(o.name, values)
			return visit()
		})
	default:
		s.damage[o.name], err = w.Rows(o.root, func(sqlitefile.Row) error { return visit() })
	}
	return err
}

// adopt assigns rows whose page was cut off by damage to the table that they fit.
func (s *salvage) adopt(w *sqlitefile.Walker) error {
	if !s.anyBelow() {
		return nil
	}
	return w.Orphans(func(rows []sqlitefile.Row) error {
		t, ok := s.parent(rows)
		if !ok {
			return nil
		}
		for _, r := range rows {
			if err := s.take(t, r.ID, r.Values); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *salvage) anyBelow() bool {
	for name := range s.tables {
		if slices.ContainsFunc(s.damage[name], func(d sqlitefile.Damage) bool { return d.Below }) {
			return true
		}
	}
	return false
}

// parent returns the table that has lost such rows: the one with the fewest columns
// that they do not have.
func (s *salvage) parent(rows []sqlitefile.Row) (best table, found bool) {
	for _, t := range s.inOrder() {
		if !t.byKey && s.lacks(t, rows) && (!found || len(t.columns) < len(best.columns)) {
			best, found = t, true
		}
	}
	return best, found
}

func (s *salvage) lacks(t table, rows []sqlitefile.Row) bool {
	for _, r := range rows {
		missing := func(d sqlitefile.Damage) bool { return d.Below && r.ID > d.After && r.ID <= d.UpTo }
		if !t.fits(r.Values) || !slices.ContainsFunc(s.damage[t.name], missing) {
			return false
		}
	}
	return true
}

// hit returns the tables and indexes that can't be read completely, in order.
func (s *salvage) hit() (names []string) {
	for name, damage := range s.damage {
		if len(damage) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
