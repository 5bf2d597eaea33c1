package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// conn is a connection for database/sql, which calls it from one goroutine at a time.
type conn struct {
	pgx        *pgx.Conn
	statements *statements
	reading    *rows     // the rows that the server has not sent completely; nil = none
	used       time.Time // when database/sql last took the connection from its pool
}

const (
	closeWait = 5 * time.Second // how long closing a connection in good order may take
	pingAfter = time.Second     // a connection that was idle for longer is tested before it is used again
)

// ExecContext implements driver.ExecerContext. A query without arguments may consist of several statements.
func (c *conn) ExecContext(ctx context.Context, query string, given []driver.NamedValue) (driver.Result, error) {
	text, args, err := c.ready(query, given)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(text, ReturningID) {
		return c.insert(ctx, text, args)
	}
	tag, err := c.pgx.Exec(ctx, text, args...)
	if err != nil {
		return nil, unsent(err)
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

// ReturningID is the end of an INSERT of at most one row. With it, sql.Result.LastInsertId returns the id of the row.
const ReturningID = ` RETURNING id`

// insert executes an INSERT that ends with ReturningID.
func (c *conn) insert(ctx context.Context, text string, args []any) (driver.Result, error) {
	var added inserted
	err := c.pgx.QueryRow(ctx, text, args...).Scan(&added.id)
	if errors.Is(err, pgx.ErrNoRows) {
		return driver.RowsAffected(0), nil
	}
	return added, unsent(err)
}

// inserted is the result of an INSERT that has added a row.
type inserted struct{ id int64 }

func (i inserted) LastInsertId() (int64, error) { return i.id, nil }
func (inserted) RowsAffected() (int64, error)   { return 1, nil }

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, given []driver.NamedValue) (driver.Rows, error) {
	text, args, err := c.ready(query, given)
	if err != nil {
		return nil, err
	}
	if end, is := ctx.Value(endKey{}).(context.Context); is {
		ctx = end
	}
	found, err := c.pgx.Query(ctx, text, append([]any{resultFormats}, args...)...)
	if err != nil {
		return nil, unsent(err)
	}
	return c.read(found)
}

// endKey is the key for the context that EndedByDriver has replaced.
type endKey struct{}

// EndedByDriver returns a context that never ends, so that database/sql does not watch it during a query. The driver of this
// package still ends the query when ctx ends; other drivers do not.
func EndedByDriver(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), endKey{}, ctx)
}

// ready returns the rewritten text and the arguments of a statement. It reads pending rows of another query into memory, so that
// the connection can execute the statement.
func (c *conn) ready(query string, given []driver.NamedValue) (text string, args []any, err error) {
	if c.pgx.IsClosed() {
		return "", nil, driver.ErrBadConn
	}
	if err := c.finishReading(); err != nil {
		return "", nil, err
	}
	statement := c.statements.of(query)
	args, err = statement.arguments(given)
	return statement.text, args, err
}

// unsent returns err, as a driver.ErrBadConn if nothing of the statement was sent: then database/sql tries the statement again on
// another connection.
func unsent(err error) error {
	if pgconn.SafeToRetry(err) {
		return errors.Join(driver.ErrBadConn, err)
	}
	return err
}

// flag is a boolean argument. Where the statement expects an integer, it is 0 or 1, as booleans are stored.
type flag bool

// BoolValue implements pgtype.BoolValuer.
func (f flag) BoolValue() (pgtype.Bool, error) { return pgtype.Bool{Bool: bool(f), Valid: true}, nil }

// Int64Value implements pgtype.Int64Valuer.
func (f flag) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: flagValue(bool(f)), Valid: true}, nil
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(arg *driver.NamedValue) error { return checkNamedValue(arg) }

func checkNamedValue(arg *driver.NamedValue) (err error) {
	if arg.Value, err = driver.DefaultParameterConverter.ConvertValue(arg.Value); err != nil {
		return err
	}
	switch value := arg.Value.(type) {
	case bool:
		arg.Value = flag(value)
	case string:
		arg.Value = validText(value)
	}
	return nil
}

// validText returns text with U+FFFD in place of invalid UTF-8 and NUL bytes, which the server refuses.
func validText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// PrepareContext implements driver.ConnPrepareContext. It does nothing on the server: pgx prepares each
// statement when it is first executed, and caches it.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return &prepared{c, query}, nil
}

// Prepare implements driver.Conn.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// prepared is a statement for database/sql.
type prepared struct {
	conn  *conn
	query string
}

func (p *prepared) Close() error  { return nil }
func (p *prepared) NumInput() int { return -1 } // statement.arguments checks the number

func (p *prepared) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return p.conn.ExecContext(ctx, p.query, args)
}

func (p *prepared) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return p.conn.QueryContext(ctx, p.query, args)
}

var errWithoutContext = errors.New("this driver needs the methods with a context")

func (p *prepared) Exec([]driver.Value) (driver.Result, error) { return nil, errWithoutContext }
func (p *prepared) Query([]driver.Value) (driver.Rows, error)  { return nil, errWithoutContext }

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	begin, err := beginStatement(o)
	if err != nil {
		return nil, err
	}
	if _, err := c.ExecContext(ctx, begin, nil); err != nil {
		return nil, err
	}
	return transaction{c}, nil
}

func beginStatement(o driver.TxOptions) (string, error) {
	begin := "BEGIN"
	switch level := sql.IsolationLevel(o.Isolation); level {
	case sql.LevelDefault:
	case sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
		begin += " ISOLATION LEVEL " + level.String()
	default:
		return "", fmt.Errorf("isolation level %s not supported", level)
	}
	if o.ReadOnly {
		begin += " READ ONLY"
	}
	return begin, nil
}

// Begin implements driver.Conn.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

type transaction struct{ conn *conn }

// errRolledBack says that the server answered a COMMIT with ROLLBACK, since a statement had failed before.
var errRolledBack = errors.New("the transaction was rolled back, because one of its statements had failed")

// Commit implements driver.Tx.
func (t transaction) Commit() error {
	if err := t.conn.finishReading(); err != nil {
		return err
	}
	tag, err := t.conn.pgx.Exec(context.Background(), "COMMIT")
	if err == nil && tag.String() == "ROLLBACK" {
		err = errRolledBack
	}
	return err
}

// Rollback implements driver.Tx.
func (t transaction) Rollback() error {
	if t.conn.pgx.IsClosed() { // the server rolls back what its client does not commit
		return nil
	}
	if err := t.conn.finishReading(); err != nil {
		return err
	}
	_, err := t.conn.pgx.Exec(context.Background(), "ROLLBACK")
	return err
}

// Ping implements driver.Pinger.
func (c *conn) Ping(ctx context.Context) error {
	if c.pgx.IsClosed() || c.pgx.Ping(ctx) != nil {
		return driver.ErrBadConn
	}
	return nil
}

// ResetSession implements driver.SessionResetter. It refuses a connection that was closed, is in a transaction, or does not answer
// a ping after it was idle.
func (c *conn) ResetSession(ctx context.Context) error {
	if !c.IsValid() || c.pgx.PgConn().TxStatus() != 'I' {
		return driver.ErrBadConn
	}
	idle := time.Since(c.used)
	c.used = time.Now()
	if idle > pingAfter {
		return c.Ping(ctx)
	}
	return nil
}

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool { return !c.pgx.IsClosed() && c.reading == nil }

// Close implements driver.Conn.
func (c *conn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return c.pgx.Close(ctx)
}
