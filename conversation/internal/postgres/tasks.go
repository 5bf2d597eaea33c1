package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"iter"
	"strings"
)

// Tx carries out the statements of a transaction. It is a part of *sql.Tx and of *sql.Conn.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Task is a part of a transaction. Several tasks of a [Pipe] run by turns, never at the same time.
type Task struct {
	Do []func(ctx context.Context, tx Tx) error // one after the other

	// Ahead lets the task go on before a statement without rows is carried out, until it asks for rows, or how many were changed.
	// The error of such a statement may come with a later statement, or with the transaction.
	Ahead bool
}

// Run carries out tasks, and returns when they have ended; some of their statements may still wait for the next task, or
// for Commit. The error is that of the first task, in their order, that failed by itself. After an error the caller
// rolls back.
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

// end lets all tasks end after the transaction has failed, and returns why it did.
func (p *Pipe) end(list []*running, failed error) error {
	for _, r := range list {
		r.next() // statements fail from now on
		if r.err != nil && !p.apart && !errors.Is(r.err, errElsewhere) {
			return r.err
		}
	}
	return failed
}

// running is a task under way.
type running struct {
	next func() (struct{}, bool) // goes on until the task waits for answers; false = it has ended
	stop func()
	err  error // of the task that has ended
}

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

// strand is the connection that database/sql has for one task.
type strand struct {
	pipe    *Pipe
	conn    *sql.Conn
	ahead   bool
	wait    func() bool // until what is queued was sent; false = never
	pending []*request  // whose answers the task has not seen
	size    int         // of their arguments, in bytes
}

// A task that is further ahead waits until its statements are carried out.
const (
	maxPending = 64
	maxSize    = 256 << 10
)

// errElsewhere says that a task failed only because the transaction did.
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

// AtCommit has do called when the transaction is committed to which the context of a task belongs, and all its
// statements have their answers. It is not called if the answer to the COMMIT was lost. AtCommit reports
// false, and does nothing, where ctx is not that of a task.
func AtCommit(ctx context.Context, do func()) bool {
	pipe, is := ctx.Value(pipeKey{}).(*Pipe)
	if is {
		pipe.committed = append(pipe.committed, do)
	}
	return is
}

// Require carries out a statement in a task that must change a row, or, if it is a SELECT, return one. Otherwise the transaction
// fails with the error of refused. The server decides that, so the task need not wait for the answer. Require reports false, and
// does nothing, where ctx is not that of a task.
func Require(ctx context.Context, tx Tx, refused func() error, statement string, args ...any) (done bool, err error) {
	if _, is := ctx.Value(pipeKey{}).(*Pipe); !is {
		return false, nil
	}
	_, err = tx.ExecContext(context.WithValue(ctx, refusedKey{}, refused), needsRow(statement), args...)
	return true, err
}

// refusedKey is the key of the function refused in the context of a statement.
type refusedKey struct{}

// needsRow returns a statement that fails with the code divisionByZero unless another one, which returns one column 1 for each
// row, returns a row.
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

func (s *strand) do(task Task) error {
	ctx := context.WithValue(context.Background(), pipeKey{}, s.pipe)
	for _, do := range task.Do {
		if err := do(ctx, s.conn); err != nil {
			return err
		}
	}
	return nil
}

// ask queues a statement.
func (s *strand) ask(query string, given []driver.NamedValue) (*request, error) {
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

// await waits until a statement and those before it are carried out.
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
	r, err := s.ask(query, given)
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
	r, err := s.ask(query, given)
	if err != nil {
		return nil, err
	}
	if err := s.await(r); err != nil {
		return nil, err
	}
	return r, nil
}

// result is what a statement has changed, which may not be known yet.
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
	return nil, errors.New("tasks begin no transaction: the pipe does")
}

// Close implements driver.Conn.
func (s *strand) Close() error { return nil }

// Prepare implements driver.Conn.
func (s *strand) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("tasks do not prepare statements: the pipe does")
}

// strands makes the connections of tasks for database/sql.
type strands struct{ pipe *Pipe }

// Connect implements driver.Connector.
func (c strands) Connect(context.Context) (driver.Conn, error) { return &strand{pipe: c.pipe}, nil }

// Driver implements driver.Connector.
func (strands) Driver() driver.Driver { return opener{} }
