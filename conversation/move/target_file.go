package move

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/conversation/internal/sqlitefile"
)

// fileTarget is a SQLite file that is made beside the one that it becomes, under a name that no gateway opens.
// All bytes of files are in the database.
type fileTarget struct {
	*sql.Conn
	db    *sql.DB
	held  *db.Access // access to the path that the file gets in the end
	draft string     // path of the file until then
}

func openFileTarget(ctx context.Context, path string) (_ target, err error) {
	held, err := db.Exclude(path)
	if err != nil {
		return nil, err
	}
	f := &fileTarget{held: held, draft: filepath.Join(filepath.Dir(held.Path), "."+filepath.Base(held.Path)+".moving")}
	if err := f.open(ctx); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *fileTarget) open(ctx context.Context) error {
	if _, err := os.Lstat(f.held.Path); err == nil {
		return fmt.Errorf("%s exists already: name a file that does not exist", f.held.Path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(f.draft); errors.Is(err, os.ErrNotExist) {
		return f.make(ctx)
	}
	if err := f.connect(ctx); err != nil {
		return err
	}
	if _, err := readsMark(ctx, f); err != nil { // a move was killed before it had made all tables, which are read next
		return errors.Join(f.disconnect(), f.make(ctx))
	}
	return nil
}

// make makes an empty draft, in place of one that is there.
func (f *fileTarget) make(ctx context.Context) error {
	if err := f.remove(); err != nil {
		return err
	}
	file, err := os.OpenFile(f.draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(f.giveToOwner(file), file.Close())
	}
	if err != nil {
		return err
	}
	version, err := db.NewestSchema()
	if err == nil {
		err = db.MakeSchema(ctx, f.draft, version)
	}
	if err != nil {
		return err
	}
	return f.connect(ctx)
}

// giveToOwner gives the file, and the lock file, to the owner of the folder: a move by root must not lock the gateway out.
func (f *fileTarget) giveToOwner(file *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(f.draft))
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return errors.Join(file.Chown(int(owner.Uid), int(owner.Gid)), os.Chown(f.held.Path+".lock", int(owner.Uid), int(owner.Gid)))
}

func (f *fileTarget) connect(ctx context.Context) (err error) {
	if f.db, err = sqlite.Open(f.draft, sqlite.Options{Journal: sqlite.Rollback}); err != nil {
		return err
	}
	f.Conn, err = f.db.Conn(ctx)
	return err
}

func (f *fileTarget) disconnect() (err error) {
	if f.Conn != nil {
		err = f.Conn.Close()
	}
	if f.db != nil {
		err = errors.Join(err, f.db.Close())
	}
	f.Conn, f.db = nil, nil
	return err
}

// remove removes the draft.
func (f *fileTarget) remove() (err error) {
	for _, suffix := range []string{"", "-journal"} {
		if e := os.Remove(f.draft + suffix); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func (f *fileTarget) close() error { return errors.Join(f.disconnect(), f.held.Close()) }

func (f *fileTarget) discarding() string { return "delete " + f.draft }

func (f *fileTarget) begin(ctx context.Context, m *mover) (at position, restarted bool, err error) {
	want, err := wanted(ctx, m)
	if err != nil {
		return at, false, err
	}
	known, err := readsMark(ctx, f)
	if err == nil {
		if err := known.check(want, f.held.Path); err != nil || known.state == want.state {
			return known.at, false, err
		}
		restarted = true
	}
	// A draft without a mark is one whose tables were not all made.
	if err := errors.Join(f.disconnect(), f.make(ctx)); err != nil {
		return at, false, err
	}
	err = transaction(ctx, f.Conn, func(tx *sql.Tx) error {
		if err := execute(ctx, tx, makeMark); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, setMark, want.source, want.state)
		return err
	})
	return at, restarted, db.Explain(err)
}

func (f *fileTarget) add(ctx context.Context, t table, batch []row, at, next position) error {
	return transaction(ctx, f.Conn, func(tx *sql.Tx) (err error) {
		if err := advance(ctx, tx, at, next); err != nil {
			return err
		}
		insert, err := tx.PrepareContext(ctx, `INSERT INTO "`+t.name+`" (`+quoted(t.names())+`) VALUES (`+marks(len(t.columns))+`)`)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, insert.Close()) }()
		for _, r := range batch {
			if _, err := insert.ExecContext(ctx, r.values...); err != nil {
				return fmt.Errorf("row %v: %w", r.key, err)
			}
		}
		return nil
	})
}

// finish has the chores make the search index, new rows get new ids, and gives the file its name.
func (f *fileTarget) finish(ctx context.Context, m *mover) error {
	counted, err := m.from.counted(ctx)
	if err != nil {
		return err
	}
	err = transaction(ctx, f.Conn, func(tx *sql.Tx) error {
		if err := f.setSequences(ctx, tx, m.from); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE cursors SET value = ? WHERE name = 'run_totals'`, counted); err != nil {
			return err
		}
		return execute(ctx, tx, `DELETE FROM unread_files`, readFilesAgain, dropMark)
	})
	if err != nil {
		return db.Explain(err)
	}
	if err := f.disconnect(); err != nil {
		return err
	}
	if err := os.Rename(f.draft, f.held.Path); err != nil {
		return err
	}
	return sqlitefile.SyncFolder(f.held.Path)
}

// setSequences has the tables that give no id twice go on behind those that were ever given.
func (f *fileTarget) setSequences(ctx context.Context, tx *sql.Tx, from source) error {
	names, err := db.Column[string](tx.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'`))
	if err != nil {
		return err
	}
	for _, name := range names {
		given, err := from.ids(ctx, name)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)`, name); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE sqlite_sequence SET seq = ? WHERE name = ? AND seq < ?`, given, name, given); err != nil {
			return err
		}
	}
	return nil
}
