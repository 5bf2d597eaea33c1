// Package db is the database under package conversation: a SQLite file, or a database on a
// PostgreSQL server. It has the connections to it, transactions, locks between processes,
// migrations, and the handling of damage, moved files and lost connections.
//
// [DB] is the same for both engines. Callers write SQL that both accept, or use [Either] with a form
// for each, and functions such as [IsDamaged] and [FaultOf] return the kind of an error.
// The code for one engine is in the files whose names begin with that of the engine.
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
	Path   string       // the path of a SQLite file, or the URL of a PostgreSQL database
	Secret string       // the path of a file with the password of the URL's user; "" = none
	Log    *slog.Logger // for failures of background work, which no caller gets as an error
	Chores []Chore      // in any order: each chore runs after the one that it needs
	Node   Node         // the name of this process among those that have a PostgreSQL database open
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

// engine is the part of a DB that differs between SQLite and PostgreSQL. Its methods implement those of
// DB with the same names.
type engine interface {
	name() string // implements Path
	write(ctx context.Context, session string, what work) error
	writeLazily(ctx context.Context, session string, what work) error
	held(ctx context.Context) task                  // returns the check that this node has the role of ctx; nil = none is needed
	owned(ctx context.Context, session string) task // returns the check that this node owns a session; nil = none is needed
	read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error
	short(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	lock(ctx context.Context, name string) (release func(), err error)
	markDaemon() error
	health
	close() error
}

// Shared returns the value that a package shares among all users of the open database. The key
// must be unique to the package, for example of a type of its own. The first call calls make for the
// value.
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

// Tx executes the statements of a transaction. It has no method to end the transaction: DB does that. It is not a
// *sql.Tx, since database/sql starts a goroutine for each of these, and another one for each of its queries.
type Tx = postgres.Tx

// Open opens a database, and brings its schema up to date. If there is no file at the path, Open creates one;
// the folder must exist. If the path is a URL, the database must exist on the server.
func Open(ctx context.Context, config Config) (*DB, error) {
	if IsURL(config.Path) {
		return openPostgres(ctx, config)
	}
	return openSQLite(ctx, config)
}

// Close waits for the writes under way and closes the database. It releases every
// lock that this process holds.
func (d *DB) Close() error { return d.engine.close() }

// Path returns the absolute path of the database file, with symbolic links resolved, or the URL of
// the database without its password.
func (d *DB) Path() string { return d.engine.name() }

// QueryContext reads on a connection of the pool. When ctx ends, the query is interrupted.
func (d *DB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return d.readers.QueryContext(ctx, query, args...)
}

// QueryRowContext reads one row on a connection of the pool.
func (d *DB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return d.readers.QueryRowContext(ctx, query, args...)
}

// Query reads on a connection or in a transaction. When ctx ends, the query is interrupted.
func Query(ctx context.Context, q Querier, query string, args ...any) (*sql.Rows, error) {
	return q.QueryContext(ctx, query, args...)
}

// Short is Query for short reads of a few rows. With SQLite it checks ctx only before the query, since database/sql and
// the driver would start a goroutine for the query and for each row if ctx can end. On PostgreSQL a query may wait for
// long, so the end of ctx interrupts it. Concurrent reads of a DB are sent to the server together.
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

// Scan reads the columns of the row. The error is sql.ErrNoRows if there is no row.
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

// Column returns the values of a query with one column. Its parameters are the results of
// QueryContext, Query or Short. With an error, it returns the values that were read before.
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

// Conn takes a connection from the pool, for several reads. The caller must close
// it.
func (d *DB) Conn(ctx context.Context) (*sql.Conn, error) { return d.readers.Conn(ctx) }

// Write calls do in a transaction and returns when the transaction is on disk. Writes that
// wait at the same time share a transaction and its sync. do may be called twice: if another
// write of the same transaction fails, each write is repeated in a transaction of its own.
// The end of ctx cancels a write that is not queued yet. A queued write is always executed,
// and Write returns its result.
func (d *DB) Write(ctx context.Context, do func(ctx context.Context, tx Tx) error) error {
	what := alone(do)
	what.check = d.engine.held(ctx)
	return d.engine.write(ctx, "", what)
}

// WriteSession is Write for a write that concerns one session, which is given by its key. On PostgreSQL, writes of
// different sessions may be executed at the same time. If ctx belongs to a role of a cluster (cluster.RoleOf) and this node
// no longer has the role, it writes nothing and fails with cluster.ErrLost.
func (d *DB) WriteSession(ctx context.Context, session string, do func(ctx context.Context, tx Tx) error) error {
	return d.WriteParts(ctx, Part{session, do})
}

// WriteParts is WriteSession for a write that concerns several sessions. The parts of one session are executed in their
// order. Statements of parts of different sessions may be interleaved; each part must use the transaction that it is given.
// The first part has the session of the write.
func (d *DB) WriteParts(ctx context.Context, parts ...Part) error {
	session := ""
	if len(parts) > 0 {
		session = parts[0].Session
	}
	return d.engine.write(ctx, session, work{check: d.engine.held(ctx), parts: parts})
}

// WriteOwned is WriteSession for writes of a loop or a sender in its session. If several nodes share the database and
// the membership to which ctx belongs does not own the session, it writes nothing and fails with cluster.ErrLost.
func (d *DB) WriteOwned(ctx context.Context, session string, do func(ctx context.Context, tx Tx) error) error {
	return d.engine.write(ctx, session, work{check: d.engine.owned(ctx, session), parts: []Part{{session, do}}})
}

// WriteQuickly is WriteOwned for a write that is safe to repeat. It survives a crash of the process, but a failure of the machine
// may lose it. With SQLite it does not wait for a sync of the disk; a later write syncs both.
func (d *DB) WriteQuickly(ctx context.Context, session string, do func(ctx context.Context, tx Tx) error) error {
	return d.engine.write(ctx, session, work{check: d.engine.owned(ctx, session), parts: []Part{{session, do}}, quick: true})
}

// WriteLazily is WriteOwned for a write that may wait up to 5 ms to share the transaction of
// another write. It costs nearly nothing while there are many writes.
func (d *DB) WriteLazily(ctx context.Context, session string, do func(ctx context.Context, tx Tx) error) error {
	return d.engine.writeLazily(ctx, session, work{check: d.engine.owned(ctx, session), parts: []Part{{session, do}}})
}

// Read calls do for a few short reads that see the same state of the database. With SQLite it uses the connection that
// writes, since its page cache stays valid, while every other connection loses its cache with each write. Writes wait
// meanwhile. Like Write, it fails with an error that wraps ErrMoved while the database is not at its path.
func (d *DB) Read(ctx context.Context, do func(ctx context.Context, conn *sql.Conn) error) error {
	return d.engine.read(ctx, do)
}
