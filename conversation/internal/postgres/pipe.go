package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Pipe is a connection that carries out several tasks in one transaction, in few round trips. While a task waits for the
// result of a statement, the other tasks continue. When all of them wait, the Pipe sends their statements together, in one
// round trip. Only one goroutine may use it at a time.
type Pipe struct {
	pgx        *pgx.Conn
	statements *statements
	prepared   map[string]*pgconn.StatementDescription // the prepared statements by their text; nil = the server does not keep any
	stale      bool                                    // whether all statements must be prepared anew
	builder    pgx.ExtendedQueryBuilder

	queue  []*request // the statements that were not sent yet
	failed error      // why the transaction can't be committed
	apart  bool       // whether failed comes from a statement that belongs to no task

	committed []func() // the functions to call after the COMMIT

	connections *sql.DB   // the connections of tasks, each a *strand
	idle        []*strand // those that no task uses
}

// maxPrepared is about how many prepared statements the server keeps for a connection, at most.
const maxPrepared = 500

// request is a statement and its result.
type request struct {
	text  string
	args  []any
	plain bool // the text has no arguments, and may consist of several statements
	task  bool // whether the statement belongs to a task

	refused func() error // returns the error for a needsRow statement without a row; nil for other statements

	answered bool // whether the result has come: either err, or fields, rows and tag
	err      error
	fields   []pgconn.FieldDescription
	rows     [][]driver.Value
	tag      pgconn.CommandTag
	done     chan struct{} // closed when the request is finished, with a result or without; nil = nobody waits for it
}

// Pipe opens a connection.
func (c *Connector) Pipe(ctx context.Context) (*Pipe, error) {
	raw, err := pgx.ConnectConfig(ctx, c.config)
	if err != nil {
		return nil, err
	}
	p := &Pipe{pgx: raw, statements: c.statements}
	if c.config.DefaultQueryExecMode == Prepared {
		p.prepared = map[string]*pgconn.StatementDescription{}
	}
	p.connections = sql.OpenDB(strands{p})
	return p, nil
}

// IsLost reports whether the connection is closed or can't be used any more.
func (p *Pipe) IsLost() bool { return p.pgx.IsClosed() }

// Cut breaks the connection at once, also while a statement waits for the server. Any goroutine may call it.
func (p *Pipe) Cut() { _ = p.pgx.PgConn().Conn().Close() }

// Close ends the connection.
func (p *Pipe) Close() error {
	for _, s := range p.idle {
		_ = s.conn.Close() // a strand holds nothing that must be closed
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return errors.Join(p.connections.Close(), p.pgx.Close(ctx))
}

// Begin begins a transaction with a statement, which must change a row or, if it is a SELECT, return one. Otherwise the
// transaction fails with the error that refused returns. Both are sent with the next statements.
func (p *Pipe) Begin(query string, args []any, refused func() error) {
	p.failed, p.apart, p.committed = nil, false, nil
	p.queue = append(p.queue[:0], &request{text: "BEGIN"}, &request{text: needsRow(query), args: args, refused: refused})
}

// Commit sends the statements in the queue, commits the transaction, and calls the functions that tasks have passed to [AtCommit].
func (p *Pipe) Commit() error {
	end := &request{text: "COMMIT"}
	p.queue = append(p.queue, end)
	if err := p.flush(); err != nil {
		return err
	}
	if end.tag.String() == "ROLLBACK" {
		return errRolledBack
	}
	for _, do := range p.committed {
		do()
	}
	return nil
}

// Rollback undoes the transaction.
func (p *Pipe) Rollback() error {
	p.queue = nil
	if p.pgx.IsClosed() || p.pgx.PgConn().TxStatus() == 'I' { // the server rolls back what its client does not commit
		return nil
	}
	_, err := p.pgx.Exec(context.Background(), "ROLLBACK")
	return err
}

// flush sends the statements in the queue and reads their results. Statements after the first one that fails are not executed.
func (p *Pipe) flush() error {
	list := p.queue
	p.queue = nil
	for len(list) > 0 && p.failed == nil {
		n := 1
		switch {
		case list[0].plain || p.prepared == nil:
			p.failed = p.sendAlone(list[0])
		default:
			for n < len(list) && !list[n].plain {
				n++
			}
			p.failed = p.sendTogether(list[:n])
		}
		p.apart = p.failed != nil && slices.ContainsFunc(list[:n], func(r *request) bool { return r.err != nil && !r.task })
		list = list[n:]
	}
	return p.failed
}

// sendAlone sends one statement and reads its result.
func (p *Pipe) sendAlone(r *request) error {
	ctx := context.Background()
	if r.plain {
		r.tag, r.err = p.pgx.Exec(ctx, r.text)
		return r.finish()
	}
	rows, err := p.pgx.Query(ctx, r.text, append([]any{resultFormats}, r.args...)...)
	if err != nil {
		r.err = err
		return r.finish()
	}
	for rows.Next() && r.err == nil {
		r.err = r.keep(rows.FieldDescriptions(), rows.RawValues())
	}
	rows.Close()
	r.fields, r.tag, r.err = rows.FieldDescriptions(), rows.CommandTag(), errors.Join(r.err, rows.Err())
	return r.finish()
}

// sendTogether sends statements and reads their results in one round trip. If some of them are not prepared yet, it needs another
// one before that.
func (p *Pipe) sendTogether(list []*request) error {
	if err := p.prepare(list); err != nil {
		return err
	}
	line := p.pgx.PgConn().StartPipeline(context.Background())
	err := p.write(line, list)
	for i := 0; err == nil && i < len(list); i++ {
		err = list[i].read(line)
	}
	if closed := line.Close(); err == nil {
		err = closed
	}
	p.stale = p.stale || Code(err) == changedResult
	return err
}

// changedResult is the SQLSTATE for a prepared statement whose result columns have changed, because tables have changed.
const changedResult = "0A000"

// write writes statements to a pipeline, and sends them.
func (p *Pipe) write(line *pgconn.Pipeline, list []*request) error {
	for _, r := range list {
		if len(r.args) == 0 && (r.text == "BEGIN" || r.text == "COMMIT") {
			line.SendQueryParams(r.text, nil, nil, nil, nil)
			continue
		}
		statement := p.prepared[r.text]
		if err := p.builder.Build(p.pgx.TypeMap(), statement, r.args); err != nil {
			line.SendPipelineSync() // ends the pipeline for the statements that were written
			r.err = fmt.Errorf("%w: %s", err, r.text)
			return errors.Join(r.finish(), line.Flush())
		}
		formats := make([]int16, len(statement.Fields))
		for i, field := range statement.Fields {
			formats[i] = resultFormats[field.DataTypeOID]
		}
		r.fields = statement.Fields
		line.SendQueryStatement(statement, p.builder.ParamValues, p.builder.ParamFormats, formats)
	}
	return line.Sync()
}

// prepare prepares those statements on the server that are not prepared yet.
func (p *Pipe) prepare(list []*request) error {
	if (p.stale || len(p.prepared) > maxPrepared) && p.pgx.PgConn().TxStatus() == 'I' {
		if err := p.pgx.DeallocateAll(context.Background()); err != nil {
			return err
		}
		clear(p.prepared)
		p.stale = false
	}
	var fresh []*request
	for _, r := range list {
		if _, known := p.prepared[r.text]; !known && r.text != "BEGIN" && r.text != "COMMIT" {
			p.prepared[r.text] = nil
			fresh = append(fresh, r)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	line := p.pgx.PgConn().StartPipeline(context.Background())
	before := len(p.prepared) - len(fresh)
	name := func(i int) string { return "pipe_" + strconv.Itoa(before+i) }
	for i, r := range fresh {
		line.SendPrepare(name(i), r.text, nil)
	}
	err := line.Sync()
	for i, r := range fresh {
		if err == nil {
			err = p.described(line, r, name(i))
		}
		if p.prepared[r.text] == nil {
			delete(p.prepared, r.text)
			p.stale = true // a later name could be in use already, since names are numbered by the size of the map
		}
	}
	if closed := line.Close(); err == nil {
		err = closed
	}
	return err
}

// described reads the server's description of a statement that was prepared.
func (p *Pipe) described(line *pgconn.Pipeline, r *request, name string) error {
	got, err := line.GetResults()
	if err != nil {
		r.err = err
		return r.finish()
	}
	statement := got.(*pgconn.StatementDescription)
	statement.Name, statement.SQL = name, r.text
	p.prepared[r.text] = statement
	return nil
}

// read reads the result of the statement.
func (r *request) read(line *pgconn.Pipeline) error {
	got, err := line.GetResults()
	if err != nil {
		r.err = err
		return r.finish()
	}
	result := got.(*pgconn.ResultReader)
	for result.NextRow() && r.err == nil {
		r.err = r.keep(result.FieldDescriptions(), result.Values())
	}
	r.tag, err = result.Close()
	r.err = errors.Join(r.err, err)
	return r.finish()
}

// keep decodes a row and appends it to rows. The driver reuses the memory of fields and raw for the next row.
func (r *request) keep(fields []pgconn.FieldDescription, raw [][]byte) (err error) {
	values := make([]driver.Value, len(raw))
	for i := range raw {
		if values[i], err = valueOf(fields[i], raw[i]); err != nil {
			return fmt.Errorf("column %s: %w", fields[i].Name, err)
		}
	}
	r.rows = append(r.rows, values)
	return nil
}

// finish marks the request as answered, and returns its error.
func (r *request) finish() error {
	r.answered = true
	if r.refused != nil && Code(r.err) == divisionByZero {
		r.err = r.refused()
	}
	return r.err
}

// Columns implements driver.Rows.
func (r *request) Columns() []string {
	names := make([]string, len(r.fields))
	for i, field := range r.fields {
		names[i] = field.Name
	}
	return names
}

// Next implements driver.Rows.
func (r *request) Next(values []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(values, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

// Close implements driver.Rows.
func (r *request) Close() error { return nil }
