// Package db is the database under package conversation: one SQLite file, or a database of a
// PostgreSQL server, with the connections to it, transactions, locks between processes,
// migrations, and the handling of what can happen to it.
//
// [DB] is the same for both engines: callers write SQL that both accept, or give [Either] the words for
// each, and ask for the kind of an error with functions such as [IsDamaged] and [FaultOf].
// What is particular to an engine is in the files that begin with its name.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"sync"

	"parley/conversation/internal/postgres"
)

// Config says how Open opens a database.
type Config struct {
	Path   string       // of a SQLite file, or the URL of a PostgreSQL database
	Secret string       // path of a file with the password of the URL's user; "" = none
	Log    *slog.Logger // for failures of background work, which no caller gets as an error
	Chores []Chore      // in any order: each is done after the one that it needs
	Node   Node         // how this process is called among those that have a PostgreSQL database open
}

// DB is an open database. It is safe for concurrent use. Several processes may
// open the same one.
//
// Its methods QueryContext, QueryRowContext and Conn read on a small pool of
// connections; others write.
type DB struct {
	engine  engine
	readers *sql.DB
	chores  *background
	shared  sync.Map // see Shared
}

// engine is what is particular to SQLite or PostgreSQL. Its methods implement those of DB that have the
// same names.
type engine interface {
	name() string // of the database, without a password
	write(ctx context.Context, session string, what work) error
	writeLazily(ctx context.Context, session string, what work) error
	held(ctx context.Context) task                  // a check, or nil
	owned(ctx context.Context, session string) task // a check, or nil
	read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error
	short(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	lock(ctx context.Context, name string) (release func(), err error)
	markDaemon() error
	health
	close() error
}

// Shared returns the value that a package keeps in memory for all users of the open
// database. Each package has its own key. The first call makes the value.
func (db *DB) Shared(key any, make func() any) any {
	if kept, known := db.shared.Load(key); known {
		return kept
	}
	kept, _ := db.shared.LoadOrStore(key, make())
	return kept
}

// Querier is a connection, a transaction, or a DB.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx carries out the statements of a transaction. It has no method to end it: the database does. It is no
// *sql.Tx, for which database/sql starts a goroutine, and another one for each of its queries.
type Tx = postgres.Tx

// Open opens the database at a path, creates it if there is none, and brings its schema up to date. The
// folder must exist. Where the path is a URL, the database on the server must exist.
func Open(ctx context.Context, config Config) (*DB, error) {
	if IsURL(config.Path) {
		return openPostgres(ctx, config)
	}
	return openSQLite(ctx, config)
}

// Close waits for the writes under way and closes the database. It releases every
// lock that this process holds.
func (d *DB) Close() error { return d.engine.close() }

// Path returns the absolute path of the database file, links followed, or the URL of the
// database without its password.
func (d *DB) Path() string { return d.engine.name() }

// QueryContext reads on a connection of the pool. The end of ctx interrupts it.
func (d *DB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return d.readers.QueryContext(ctx, query, args...)
}

// QueryRowContext reads one row on a connection of the pool.
func (d *DB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return d.readers.QueryRowContext(ctx, query, args...)
}

// Query reads on a connection or in a transaction. The end of ctx interrupts it.
func Query(ctx context.Context, q Querier, query string, args ...any) (*sql.Rows, error) {
	return q.QueryContext(ctx, query, args...)
}

// Short is Query for short reads of a few rows. With SQLite it checks ctx only before the query, since database/sql and
// the driver start a goroutine for each query and each row where a context can end. A server may keep a client
// waiting for long: there the end of ctx ends the read, too. Reads of a DB that come at the same moment go to
// the server together.
func Short(ctx context.Context, q Querier, query string, args ...any) (*sql.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d, is := q.(*DB); is {
		return d.engine.short(ctx, query, args...)
	}
	return q.QueryContext(postgres.EndedByDriver(ctx), query, args...)
}

// ShortRow is Short for a query of one row.
func ShortRow(ctx context.Context, q Querier, query string, args ...any) Row {
	rows, err := Short(ctx, q, query, args...)
	return Row{rows, err}
}

// Row is the result of ShortRow, which needs a Scan.
type Row struct {
	rows *sql.Rows
	err  error
}

// Scan reads the columns of the row. Where there is none, the error is sql.ErrNoRows.
func (r Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		return cmp.Or(r.rows.Err(), sql.ErrNoRows)
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	return r.rows.Close()
}

// Column reads all rows of a query with one column, as QueryContext, Query and Short return
// it. With an error it returns the rows that were read before.
func Column[T any](rows *sql.Rows, err error) (list []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			return list, err
		}
		list = append(list, value)
	}
	return list, rows.Err()
}

// Conn takes a connection out of the pool, for several reads. The caller closes
// it.
func (d *DB) Conn(ctx context.Context) (*sql.Conn, error) { return d.readers.Conn(ctx) }

// Write runs do in a transaction and returns when the transaction is on disk. Writes that
// wait at the same time share a transaction and its sync. do may run twice: when another
// write of the same transaction fails, each write is repeated in a transaction of its own.
// The end of ctx cancels a write that is not queued yet. A queued write is always carried
// out, and Write returns its outcome.
func (d *DB) Write(ctx context.Context, do func(ctx context.Context, tx Tx) error) error {
	what := alone(do)
	what.check = d.engine.held(ctx)
	return d.engine.write(ctx, "", what)
}

// WriteSession is Write for a write that concerns one session, named by its key. Those of different
// sessions may be carried out at the same time, where the engine can. Where ctx belongs to a role of a cluster
// (cluster.RoleOf), it writes nothing and fails with cluster.ErrLost unless this node still has the role.
func (d *DB) WriteSession(ctx context.Context, session string, do func(ctx context.Context, tx Tx) error) error {
	return d.WriteParts(ctx, Part{session, do})
}

// WriteParts is WriteSession for a write that concerns several sessions. The parts of one session are carried out in
// their order, and those of others possibly before, after and between their statements: each uses the transaction that
// it is given. The first part has the session of the write.
func (d *DB) WriteParts(ctx context.Context, parts ...Part) error {
	session := ""
	if len(parts) > 0 {
		session = parts[0].Session
	}
	return d.engine.write(ctx, session, work{check: d.engine.held(ctx), parts: parts})
}

// WriteOwned is WriteSession for the work that a loop or a sender does in a session. Where several
// nodes share the database, it writes nothing and fails with cluster.ErrLost unless the membership that ctx
// belongs to owns the session.
func (d *DB) WriteOwned(ctx context.Context, session string, do func(ctx context.Context, tx Tx) error) error {
	return d.engine.write(ctx, session, work{check: d.engine.owned(ctx, session), parts: []Part{{session, do}}})
}

// WriteQuickly is WriteOwned for what can be done again at no harm: it outlasts this process, however that ends, but perhaps
// not a failure of the machine. With SQLite it does not wait until the disk has stored it; a later write does so for both.
func (d *DB) WriteQuickly(ctx context.Context, session string, do func(ctx context.Context, tx Tx) error) error {
	return d.engine.write(ctx, session, work{check: d.engine.owned(ctx, session), parts: []Part{{session, do}}, quick: true})
}

// WriteLazily is WriteOwned for writes that may wait up to 5 ms to share the transaction of
// another write. They cost nearly nothing while much is written.
func (d *DB) WriteLazily(ctx context.Context, session string, do func(ctx context.Context, tx Tx) error) error {
	return d.engine.writeLazily(ctx, session, work{check: d.engine.owned(ctx, session), parts: []Part{{session, do}}})
}

// Read runs a few short reads that see the same state of the database. With SQLite it uses the connection that
// writes: its page cache stays valid, while every other connection loses its cache with each write. No
// write goes on meanwhile. It fails where Write would, because the database was taken away.
func (d *DB) Read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error {
	return d.engine.read(ctx, do)
}
