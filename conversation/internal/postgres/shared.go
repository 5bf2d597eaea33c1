package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Shared carries out short reads of many goroutines on one connection. Those that come while others are on their way
// go to the server together afterwards, in one round trip.
//
// A read whose statement fails, or shares a round trip with one that fails, returns ErrNotShared, and so does every read
// while there is no connection. Its caller repeats it on a connection of its own, whose error counts. The end of a read's
// context ends the waiting of its caller alone.
type Shared struct {
	connector *Connector
	reads     *sql.DB // whose connections are those of single reads: each a *sharedRead

	mu        sync.Mutex
	waiting   []*request
	connected bool
	busy      bool      // a goroutine sends what waits, or connects
	retryAt   time.Time // when the next attempt to connect may begin
	closed    bool
	working   sync.WaitGroup

	pipe *Pipe // of the goroutine that makes Shared busy; nil while there is no connection
}

// ErrNotShared says that a read was not carried out, and is to be repeated on a connection of its own.
var ErrNotShared = errors.New("the read needs a connection of its own")

const (
	sharedStatement = time.Second     // after which the server ends a statement: it is not short
	sharedTogether  = 5 * time.Second // after which the connection to a server that does not answer is broken
	sharedRetry     = time.Second     // pause after an attempt to connect that failed
	maxTogether     = 64              // reads in a round trip
)

// Shared returns the shared connection to the server, which the first read opens. Where the server keeps no
// statements, as behind a pooler, each would need a round trip of its own, so that nothing is shared.
func (c *Connector) Shared() *Shared {
	config := c.config.Copy()
	config.RuntimeParams["statement_timeout"] = fmt.Sprint(sharedStatement.Milliseconds())
	s := &Shared{connector: &Connector{config: config, statements: c.statements}}
	s.closed = config.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement
	s.reads = sql.OpenDB(sharedReads{s})
	s.reads.SetMaxIdleConns(maxTogether) // each is a few bytes
	return s
}

// Query carries out a read with others. All of its rows are in memory.
func (s *Shared) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return s.reads.QueryContext(EndedByDriver(ctx), query, args...)
}

// Close waits for the reads under way, and closes the connection.
func (s *Shared) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.working.Wait()
	s.disconnect()
	return s.reads.Close()
}

// ask has a statement carried out.
func (s *Shared) ask(ctx context.Context, r *request) error {
	if !s.enqueue(r) {
		return ErrNotShared
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !r.answered || r.err != nil {
		return ErrNotShared
	}
	return nil
}

// enqueue reports whether a statement will be carried out, or at least its channel closed.
func (s *Shared) enqueue(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return false
	case s.connected:
		s.waiting = append(s.waiting, r)
		s.work(s.send)
		return true
	case time.Now().After(s.retryAt):
		s.work(s.connect)
	}
	return false
}

// work starts a goroutine unless one is at work. The caller holds mu.
func (s *Shared) work(do func()) {
	if !s.busy {
		s.busy = true
		s.working.Go(do)
	}
}

// connect opens the connection. Reads do not wait for it.
func (s *Shared) connect() {
	ctx, cancel := context.WithTimeout(context.Background(), sharedTogether)
	defer cancel()
	pipe, err := s.connector.Pipe(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipe, s.connected, s.busy = pipe, err == nil, false
	s.retryAt = time.Now().Add(sharedRetry)
}

// send carries out what waits, until nothing does.
func (s *Shared) send() {
	for list := s.next(); len(list) > 0; list = s.next() {
		s.carryOut(list)
	}
}

// next takes the statements that share the next round trip. With none, Shared is busy no more.
func (s *Shared) next() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), maxTogether)
	list := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	s.busy = n > 0
	return list
}

// carryOut sends statements together. After an error, those behind the one that failed have no answer.
func (s *Shared) carryOut(list []*request) {
	defer func() {
		for _, r := range list {
			close(r.done)
		}
	}()
	if s.pipe == nil { // it was lost while these were waiting
		return
	}
	cut := time.AfterFunc(sharedTogether, s.pipe.Cut)
	err := s.pipe.sendTogether(list)
	if !cut.Stop() || s.pipe.IsLost() || IsLost(err) {
		s.mu.Lock()
		s.connected = false
		s.mu.Unlock()
		s.disconnect()
	}
}

func (s *Shared) disconnect() {
	if s.pipe != nil {
		s.pipe.Cut() // there is nothing to say goodbye for, and the server may not listen
		_ = s.pipe.Close()
		s.pipe = nil
	}
}

// sharedReads makes the connections that database/sql has for single reads.
type sharedReads struct{ shared *Shared }

// Connect implements driver.Connector.
func (c sharedReads) Connect(context.Context) (driver.Conn, error) {
	return sharedRead(c), nil
}

// Driver implements driver.Connector.
func (sharedReads) Driver() driver.Driver { return opener{} }

// sharedRead is the connection that database/sql has for one read at a time.
type sharedRead struct {
	shared *Shared
}

// QueryContext implements driver.QueryerContext.
func (c sharedRead) QueryContext(ctx context.Context, query string, given []driver.NamedValue) (driver.Rows, error) {
	statement := c.shared.connector.statements.of(query)
	args, err := statement.arguments(given)
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		if value, is := arg.([]byte); is {
			args[i] = bytes.Clone(value) // the caller may be gone before it is sent
		}
	}
	if end, is := ctx.Value(endKey{}).(context.Context); is {
		ctx = end
	}
	r := &request{text: statement.text, args: args, done: make(chan struct{})}
	if err := c.shared.ask(ctx, r); err != nil {
		return nil, err
	}
	return r, nil
}

// CheckNamedValue implements driver.NamedValueChecker.
func (sharedRead) CheckNamedValue(arg *driver.NamedValue) error { return checkNamedValue(arg) }

// Prepare implements driver.Conn.
func (sharedRead) Prepare(string) (driver.Stmt, error) { return nil, errSharedReads }

// Begin implements driver.Conn.
func (sharedRead) Begin() (driver.Tx, error) { return nil, errSharedReads }

// Close implements driver.Conn.
func (sharedRead) Close() error { return nil }

var errSharedReads = errors.New("a shared connection carries out single reads only")
