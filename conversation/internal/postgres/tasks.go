package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"iter"
	"strings"
)

// Tx executes the statements of a transaction. *sql.Tx and *sql.Conn implement it.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Task is a part of a transaction. Several tasks of a [Pipe] run in turns, never at the same time.
type Task struct {
	Do []func(ctx context.Context, tx Tx) error // called one after the other

	// Ahead lets the task continue before an Exec is executed, until it needs rows or the number of changed rows. The
	// error of the Exec may come from a later statement, or from the transaction.
	Ahead bool
}

// Run runs tasks until all have ended. Some of their statements may still be in the queue; a later Run or Commit sends them.
// The error is that of the first task, in their order, that did not fail just because the transaction had failed. After an
// error, the caller must call Rollback.
func (p *Pipe) Run(tasks ...Task) error {
	list := make([]*running, 0, len(tasks))
	defer func() {
		for _, r := range list {
			r.stop()
		}
	}()
	for _, task := range tasks {
		r, err := p.start(task)
		if err != nil {
			return err
		}
		list = append(list, r)
	}
	for {
		waiting := false
		for _, r := range list {
			_, goesOn := r.next()
			waiting = waiting || goesOn
			if r.err != nil && p.failed == nil {
				p.failed = r.err
				return r.err
			}
		}
		if !waiting {
			return nil
		}
		if err := p.flush(); err != nil {
			return p.end(list, err)
		}
	}
}

// end lets all tasks end after the transaction has failed, and returns the error of Run.
func (p *Pipe) end(list []*running, failed error) error {
	for _, r := range list {
		r.next() // every statement of the task fails now
		if r.err != nil && !p.apart && !errors.Is(r.err, errElsewhere) {
			return r.err
		}
	}
	return failed
}

// running is a task that was started.
type running struct {
	next func() (struct{}, bool) // continues the task until it waits for results; false = the task has ended
	stop func()
	err  error // the error of the task, once it has ended
}

// start starts a task, which runs only during next.
func (p *Pipe) start(task Task) (*running, error) {
	s, err := p.strand()
	if err != nil {
		return nil, err
	}
	r := &running{}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		s.ahead, s.pending, s.size, s.wait = task.Ahead, nil, 0, func() bool { return yield(struct{}{}) }
		r.err = s.do(task)
	})
	r.next = next
	r.stop = func() {
		stop()
		p.idle = append(p.idle, s)
	}
	return r, nil
}

// strand is the connection of one task for database/sql.
type strand struct {
	pipe    *Pipe
	conn    *sql.Conn
	ahead   bool        // Task.Ahead
	wait    func() bool // waits until the queue was sent; false = the task must end
	pending []*request  // the statements whose results the task has not seen
	size    int         // the size of their arguments in bytes
}

// A task that is ahead waits for the results of its pending statements when they reach one of these limits.
const (
	maxPending = 64
	maxSize    = 256 << 10 // bytes of their arguments
)

// errElsewhere says that a task failed only because the transaction had failed.
var errElsewhere = errors.New("another part of the transaction failed")

// strand returns a connection for a task.
func (p *Pipe) strand() (s *strand, err error) {
	if n := len(p.idle); n > 0 {
		s, p.idle = p.idle[n-1], p.idle[:n-1]
		return s, nil
	}
	conn, err := p.connections.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	err = conn.Raw(func(c any) error {
		s = c.(*strand)
		s.conn = conn
		return nil
	})
	return s, err
}

// pipeKey is the key of the Pipe in the context of a task.
type pipeKey struct{}

// AtCommit makes the Pipe call do after the COMMIT of the present transaction, when the results of all statements are known.
// do is not called if the transaction fails, or if the result of the COMMIT is lost. ctx must be the context of a task;
// otherwise AtCommit does nothing and reports false.
func AtCommit(ctx context.Context, do func()) bool {
	pipe, is := ctx.Value(pipeKey{}).(*Pipe)
	if is {
		pipe.committed = append(pipe.committed, do)
	}
	return is
}

// Require executes a statement that must change a row or, if it is a SELECT, return one. Otherwise the transaction fails with the
// error that refused returns. The server checks that, so the task need not wait for the result. ctx must be the context of a task;
// otherwise Require does nothing and reports false.
func Require(ctx context.Context, tx Tx, refused func() error, statement string, args ...any) (done bool, err error) {
	if _, is := ctx.Value(pipeKey{}).(*Pipe); !is {
		return false, nil
	}
	_, err = tx.ExecContext(context.WithValue(ctx, refusedKey{}, refused), needsRow(statement), args...)
	return true, err
}

// refusedKey is the key for the function refused in the context of a statement.
type refusedKey struct{}

// needsRow returns a statement that executes another one, and fails with the code divisionByZero if that changes or, as a SELECT,
// returns no row.
func needsRow(statement string) string {
	if !IsSelect(statement) {
		statement += " RETURNING 1"
	}
	return "WITH needed AS (" + statement + ") SELECT 1 / count(*) FROM needed"
}

// IsSelect reports whether a statement is a SELECT, without a WITH before it.
func IsSelect(statement string) bool {
	return strings.HasPrefix(strings.TrimSpace(statement), "SELECT")
}

// do calls the functions of a task until the first error.
func (s *strand) do(task Task) error {
	ctx := context.WithValue(context.Background(), pipeKey{}, s.pipe)
	for _, do := range task.Do {
		if err := do(ctx, s.conn); err != nil {
			return err
		}
	}
	return nil
}

// enqueue queues a statement.
func (s *strand) enqueue(query string, given []driver.NamedValue) (*request, error) {
	if s.pipe.failed != nil {
		return nil, errElsewhere
	}
	statement := s.pipe.statements.of(query)
	args, err := statement.arguments(given)
	if err != nil {
		return nil, err
	}
	r := &request{text: statement.text, args: args, task: true}
	s.pipe.queue = append(s.pipe.queue, r)
	s.pending = append(s.pending, r)
	for _, arg := range args {
		switch value := arg.(type) {
		case string:
			s.size += len(value)
		case []byte:
			s.size += len(value)
		}
	}
	return r, nil
}

// await waits for the results of a statement and of the pending ones before it. It returns the first error among them.
func (s *strand) await(r *request) error {
	for !r.answered {
		if s.pipe.failed == nil && !s.wait() || s.pipe.failed != nil {
			break
		}
	}
	pending := s.pending
	s.pending, s.size = nil, 0
	for _, one := range pending {
		if one.err != nil {
			return one.err
		}
	}
	if !r.answered {
		return errElsewhere
	}
	return r.err
}

// ExecContext implements driver.ExecerContext.
func (s *strand) ExecContext(ctx context.Context, query string, given []driver.NamedValue) (driver.Result, error) {
	r, err := s.enqueue(query, given)
	if err != nil {
		return nil, err
	}
	r.plain = len(given) == 0
	r.refused, _ = ctx.Value(refusedKey{}).(func() error)
	if !s.ahead || len(s.pending) >= maxPending || s.size >= maxSize {
		if err := s.await(r); err != nil {
			return nil, err
		}
	}
	return result{s, r}, nil
}

// QueryContext implements driver.QueryerContext.
func (s *strand) QueryContext(_ context.Context, query string, given []driver.NamedValue) (driver.Rows, error) {
	r, err := s.enqueue(query, given)
	if err != nil {
		return nil, err
	}
	if err := s.await(r); err != nil {
		return nil, err
	}
	return r, nil
}

// result is the result of an Exec, which may not be known yet.
type result struct {
	strand  *strand
	request *request
}

// LastInsertId implements driver.Result, for a statement that ends with ReturningID.
func (r result) LastInsertId() (int64, error) {
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return 0, err
	}
	if len(r.request.rows) == 1 && len(r.request.rows[0]) == 1 {
		if id, is := r.request.rows[0][0].(int64); is {
			return id, nil
		}
	}
	return 0, errors.New("the statement returns no id")
}

// RowsAffected implements driver.Result.
func (r result) RowsAffected() (int64, error) {
	if !r.request.answered {
		if err := r.strand.await(r.request); err != nil {
			return 0, err
		}
	}
	return r.request.tag.RowsAffected(), r.request.err
}

// CheckNamedValue implements driver.NamedValueChecker.
func (s *strand) CheckNamedValue(arg *driver.NamedValue) error { return checkNamedValue(arg) }

// Begin implements driver.Conn.
func (s *strand) Begin() (driver.Tx, error) {
	return nil, errors.New("a task can't begin a transaction")
}

// Close implements driver.Conn.
func (s *strand) Close() error { return nil }

// Prepare implements driver.Conn.
func (s *strand) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("a task can't prepare statements")
}

// strands is the connector of Pipe.connections.
type strands struct{ pipe *Pipe }

// Connect implements driver.Connector.
func (c strands) Connect(context.Context) (driver.Conn, error) { return &strand{pipe: c.pipe}, nil }

// Driver implements driver.Connector.
func (strands) Driver() driver.Driver { return opener{} }
