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
)

// Shared executes short reads of many goroutines on one connection. Reads that come during a round trip are sent
// together in the next one.
//
// A read returns ErrNotShared if its statement fails, if it shares a round trip with a statement that fails, or if there is no
// connection. The caller then repeats the read on another connection, and takes its error from there. When the context of a read
// ends, the caller stops waiting; the server still executes the read.
type Shared struct {
	connector *Connector
	reads     *sql.DB // its connections are of the type sharedRead

	mu        sync.Mutex
	waiting   []*request // the reads for the next round trips
	connected bool
	busy      bool      // whether a goroutine connects, or sends the waiting reads
	retryAt   time.Time // when the next attempt to connect may begin
	forsaken  bool      // whether the connection is closed after its next round trip
	closed    bool
	working   sync.WaitGroup

	pipe *Pipe // used only by the goroutine that makes Shared busy; nil = there is no connection
}

// ErrNotShared says that a read must be repeated on another connection.
var ErrNotShared = errors.New("the read needs a connection of its own")

const (
	sharedStatement = time.Second     // the statement_timeout of the server: a longer read is not for a shared connection
	sharedTogether  = 5 * time.Second // how long connecting or a round trip may take until the connection is broken off
	sharedRetry     = time.Second     // the pause after an attempt to connect
	maxTogether     = 64              // the maximum number of reads in a round trip
)

// Shared returns the shared connection to the server. The first read opens it. If the server does not keep prepared
// statements, as behind a connection pooler, each read would need a round trip of its own; then every read returns
// ErrNotShared.
func (c *Connector) Shared() *Shared {
	config := c.config.Copy()
	config.RuntimeParams["statement_timeout"] = fmt.Sprint(sharedStatement.Milliseconds())
	s := &Shared{connector: &Connector{config: config, statements: c.statements}}
	s.closed = config.DefaultQueryExecMode != Prepared
	s.reads = sql.OpenDB(sharedReads{s})
	s.reads.SetMaxIdleConns(maxTogether) // each takes a few bytes of memory
	return s
}

// Forsake closes the connection after its next round trip.
func (s *Shared) Forsake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forsaken = s.connected
}

// isForsaken reports whether Forsake was called for this connection.
func (s *Shared) isForsaken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forsaken
}

// Query executes a read, together with others. It reads all rows into memory.
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

// execute queues a statement and waits until it has a result. The error is ErrNotShared, or that of ctx.
func (s *Shared) execute(ctx context.Context, r *request) error {
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

// enqueue queues a statement, whose channel done will be closed then. It reports false if there is no connection; it may start
// connecting.
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

// work calls do in a new goroutine, unless one is busy. The caller must hold mu.
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

// send executes the waiting reads until there are none.
func (s *Shared) send() {
	for list := s.next(); len(list) > 0; list = s.next() {
		s.carryOut(list)
	}
}

// next returns the statements for the next round trip, and removes them from the waiting ones. If there are none, it ends the busy
// state.
func (s *Shared) next() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), maxTogether)
	list := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	s.busy = n > 0
	return list
}

// carryOut sends statements together. After an error, the statements after the failed one have no result.
func (s *Shared) carryOut(list []*request) {
	defer func() {
		for _, r := range list {
			close(r.done)
		}
	}()
	if s.pipe == nil { // the connection was lost while the statements were waiting
		return
	}
	cut := time.AfterFunc(sharedTogether, s.pipe.Cut)
	err := s.pipe.sendTogether(list)
	if !cut.Stop() || s.pipe.IsLost() || IsLost(err) || s.isForsaken() {
		s.mu.Lock()
		s.connected, s.forsaken = false, false
		s.mu.Unlock()
		s.disconnect()
	}
}

func (s *Shared) disconnect() {
	if s.pipe != nil {
		s.pipe.Cut() // closing in good order could take long, if the server does not answer
		_ = s.pipe.Close()
		s.pipe = nil
	}
}

// sharedReads is the connector of Shared.reads.
type sharedReads struct{ shared *Shared }

// Connect implements driver.Connector.
func (c sharedReads) Connect(context.Context) (driver.Conn, error) {
	return sharedRead(c), nil
}

// Driver implements driver.Connector.
func (sharedReads) Driver() driver.Driver { return opener{} }

// sharedRead is a connection for database/sql, which has one read at a time.
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
			args[i] = bytes.Clone(value) // the caller may return, and change the bytes, before they are sent
		}
	}
	if end, is := ctx.Value(endKey{}).(context.Context); is {
		ctx = end
	}
	r := &request{text: statement.text, args: args, done: make(chan struct{})}
	if err := c.shared.execute(ctx, r); err != nil {
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

var errSharedReads = errors.New("a shared connection executes only single reads")
