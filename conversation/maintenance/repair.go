package maintenance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/conversation/internal/sqlitefile"
)

// RepairOptions change how Repair works. The zero value is ready to use.
type RepairOptions struct {
	Force    bool // replace the target if it exists
	Progress Progress
}

// Repaired says what Repair has saved.
type Repaired struct {
	Contents
	Losses []Finding // what could not be read
	Log    bool      // the log beside the file belongs to another one, and was left out
}

// Repair reads all readable rows of a database that no process has open, and writes them into
// a new database at target. In place of each lost message it puts an internal one, so that
// the other messages keep their numbers. It rebuilds the search index. The old database is
// not changed.
func Repair(ctx context.Context, database, target string, o RepairOptions) (r Repaired, err error) {
	if err := checkFile(database); err != nil {
		return r, err
	}
	held, err := db.Exclude(database)
	if errors.Is(err, syscall.EROFS) { // nobody can have it open to write
		held, err = db.Share(database)
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if target, err = checkTarget(held.Path, target, o.Force); err != nil {
		return r, err
	}
	var foreign *db.ForeignLogError
	if err := held.CheckLog(ctx); errors.As(err, &foreign) && foreign.Problem == "" {
		r.Log = true
	} else if err != nil && foreign == nil {
		return r, err
	}
	pages, err := sqlitefile.OpenPages(held.Path, !r.Log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, pages.Close()) }()
	d, err := newDraft(target)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.discard()) }()
	work := &repair{salvage: salvage{pages: pages, progress: o.Progress}, dropped: map[string]int64{}}
	if err := work.build(ctx, d.path); errors.Is(err, errNoTables) {
		return r, fmt.Errorf("%s: %w", held.Path, err)
	} else if err != nil {
		return r, explain(d.path, err)
	}
	r.Losses = work.losses()
	if err := finish(ctx, d.path, o.Progress); err != nil {
		return r, explain(d.path, err)
	}
	lost, err := embed(ctx, d.path, held.Path, nil, o.Progress)
	if err != nil {
		return r, explain(d.path, err)
	}
	if err := detach(ctx, d.path); err != nil {
		return r, explain(d.path, err)
	}
	if r.Contents, err = checkCopy(ctx, d.path, o.Progress); err != nil {
		return r, err
	}
	r.LostFiles = lost
	v := verification{path: d.path, withLog: true, progress: o.Progress}
	if err := v.run(ctx); err != nil {
		return r, err
	}
	r.Losses = append(r.Losses, v.Findings...)
	return r, d.publish(target, o.Force)
}

// errNoTables says that nothing of a gateway is in a file.
var errNoTables = errors.New("no table of a gateway can be found in the file: restore a copy")

// finish migrates the new database and rebuilds derived data, such as the search index.
func finish(ctx context.Context, path string, progress Progress) (err error) {
	s, err := conversation.Open(ctx, conversation.Config{Path: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return indexAll(ctx, s.DB(), func(done, total int64) { progress.Report(Indexing, done, total) })
}

// repair is one Repair.
type repair struct {
	salvage
	tx         *sql.Tx
	statements map[string]*sql.Stmt // INSERT statements, by table and number of values
	dropped    map[string]int64     // number of rows, by table, that were left out since they conflict with others
	lost       []Loss
	replaced   int64 // values that were replaced
	unnamed    int64 // sessions that got a name
}

// build makes the new database of what can be read.
func (r *repair) build(ctx context.Context, path string) (err error) {
	if r.objects, _, err = readSchema(r.pages); err != nil {
		return err
	}
	if !r.isGateways() {
		return errNoTables
	}
	if err := r.readVersion(); err != nil {
		return err
	}
	if err := db.MakeSchema(ctx, path, r.version); err != nil {
		return err
	}
	db, err := sqlite.Open(path, sqlite.Options{Journal: sqlite.NoRollback, NoSync: true, CacheKiB: 20_000})
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	if r.tx, err = db.BeginTx(ctx, nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignoreDone(r.tx.Rollback())) }()
	here, err := describeAll(ctx, r.tx)
	if err != nil {
		return err
	}
	r.statements = map[string]*sql.Stmt{}
	r.row = func(t table, _ int64, values []any) error { return r.insert(ctx, here, t, values) }
	if err := r.run(ctx); err != nil {
		return err
	}
	if err := r.mend(ctx); err != nil {
		return err
	}
	return r.tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// describeAll returns the columns of the new database, by table.
func describeAll(ctx context.Context, q db.Querier) (columns map[string][]string, err error) {
	names, err := firstColumn(ctx, q, `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'`)
	if err != nil {
		return nil, err
	}
	columns = map[string][]string{}
	for _, name := range names {
		if columns[name], err = firstColumn(ctx, q, `SELECT name FROM pragma_table_info(?)`, name); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// Tables whose rows are not copied: they follow from the others, or are those
// of the new database.
var notCopied = []string{"goose_db_version", "exchange_counts", "wal_epoch"}

// insert adds a row that was read. It counts rows that violate a constraint of the new
// database.
func (r *repair) insert(ctx context.Context, here map[string][]string, t table, values []any) error {
	if slices.Contains(notCopied, t.name) || here[t.name] == nil {
		return nil
	}
	var names []string
	var kept []any
	for i, value := range values {
		if slices.Contains(here[t.name], t.columns[i].name) {
			names, kept = append(names, t.columns[i].name), append(kept, value)
		}
	}
	key := fmt.Sprint(t.name, len(names))
	statement := r.statements[key]
	if statement == nil {
		verb := "INSERT OR IGNORE"
		if t.name == "cursors" { // some of which a new database has
			verb = "INSERT OR REPLACE"
		}
		var err error
		statement, err = r.tx.PrepareContext(ctx, verb+` INTO "`+t.name+`" ("`+strings.Join(names, `", "`)+`") VALUES (?`+strings.Repeat(", ?", len(names)-1)+`)`)
		if err != nil {
			return err
		}
		r.statements[key] = statement
	}
	result, err := statement.ExecContext(context.Background(), kept...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if n == 0 {
		r.dropped[t.name]++
	}
	return err
}

// mend repairs the contradictions between the saved rows.
func (r *repair) mend(ctx context.Context) error {
	r.lost = r.tally.losses()
	for _, step := range []func(context.Context) error{
		r.mendValues, r.dropUnusable, r.mendSessions, r.mendConversations, r.mendMessages, r.mendBranches, r.mendReferences, r.mendCursors,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// exec executes statements that have parameters only if there is one of them.
func (r *repair) exec(ctx context.Context, query string, args ...any) error {
	_, err := r.tx.ExecContext(ctx, query, args...)
	return err
}

// isNotImported leaves out the messages of imported runs, which older schemas have not.
const isNotImported = ` AND (conversation_id, run_id) NOT IN (SELECT conversation_id, id FROM imported_runs)`

// losses returns what could not be read.
func (r *repair) losses() []Finding {
	v := verification{}
	v.damage(&r.salvage)
	list := slices.DeleteFunc(v.Findings, func(f Finding) bool { return !f.Lost })
	for _, table := range slices.Sorted(maps.Keys(r.dropped)) {
		if n := r.dropped[table]; n > 0 {
			list = append(list, Finding{Lost: true, Text: fmt.Sprintf("%s of the table %s contradicted others, or what they belong to is lost; they are left out.",
				counted(n, "row", "rows"), table)})
		}
	}
	if r.replaced > 0 {
		list = append(list, Finding{Lost: true, Text: counted(r.replaced, "value", "values") + " made no sense, such as a message's tool calls or a run that is lost; they are left out."})
	}
	if r.unnamed > 0 {
		list = append(list, Finding{Lost: true, Text: counted(r.unnamed, "session", "sessions") + " lost their names, and are now called cli:recovered-NUMBER."})
	}
	return list
}

// indexAll runs all chores without pauses, since no other process uses the database. It
// reports the number of messages in the search index.
func indexAll(ctx context.Context, d *db.DB, told func(done, total int64)) error {
	var total int64
	if err := d.QueryRowContext(ctx, `SELECT count(*) FROM messages`).Scan(&total); err != nil {
		return db.Explain(err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var left int64
		done := false
		err := d.Write(ctx, func(ctx context.Context, tx db.Tx) (err error) {
			for range catchUpSteps {
				if done, err = d.StepChore(ctx, tx); done || err != nil {
					return err
				}
			}
			return tx.QueryRowContext(ctx, `SELECT count(*) FROM messages WHERE id > (
				SELECT min(CAST(value AS INTEGER)) FROM cursors WHERE name IN ('messages_fts', 'messages_ranks'))`).Scan(&left)
		})
		if err != nil || done {
			return err
		}
		told(total-left, total)
	}
}

const catchUpSteps = 50 // of indexAll in one transaction
