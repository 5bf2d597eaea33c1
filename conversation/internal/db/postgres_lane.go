package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/cluster"
	"parley/conversation/internal/postgres"
)

// lane is one of the connections that write to a PostgreSQL database. Its transactions are fenced: each is
// committed only if the other nodes have not declared this node dead.
type lane struct {
	fence     *cluster.Lane
	connector *postgres.Connector
	outage    *outage
	patience  patience
	chores    *background // nil for all lanes but one
	forsake   func()      // called when the server takes no writes: the other connections to it must not be used any more, either
	group     *committer  // only the goroutine that has its turn may use pipe

	pipe *postgres.Pipe // nil = there is no connection
}

func newLane(fence *cluster.Lane, connector *postgres.Connector, outage *outage, forsake func(), chores *background) *lane {
	l := &lane{fence: fence, connector: connector, outage: outage, patience: defaultPatience, forsake: forsake, chores: chores}
	l.group = newCommitter(l.transact, func() {
		if chores != nil {
			chores.wake()
		}
	})
	return l
}

// patience is how long a lane waits.
type patience struct {
	server      time.Duration // for a server that can't be reached
	transaction time.Duration // for a transaction; then the connection is broken off, since the server does not answer
}

var defaultPatience = patience{server: 10 * time.Second, transaction: 30 * time.Second}

const (
	serverRetry   = 200 * time.Millisecond // the pause between two attempts to reach the server
	maxCollisions = 20                     // how often a transaction is repeated after conflicts with concurrent ones

	// maxDuplicates is how often a transaction is repeated that has failed because a row exists already. Another node may have
	// added the row at the same time; a repeated transaction sees it.
	maxDuplicates = 2

	statementWait = 15 * time.Second // the statement_timeout of the server, which ends for example a wait for a lock
)

// transact commits a group. While the server can't be reached, it tries again, as long as patience.server. It does not
// repeat a transaction that was refused because this node was declared dead: another node may have done the same
// meanwhile.
func (l *lane) transact(group ...write) error {
	collisions, duplicates := 0, 0
	for end := time.Now().Add(l.patience.server); ; {
		err := l.try(group)
		switch {
		case postgres.IsRepeatable(err) && collisions < maxCollisions:
			collisions++
			time.Sleep(time.Duration(collisions) * time.Millisecond)
			continue
		case postgres.Code(err) == postgres.UniqueViolation && duplicates < maxDuplicates:
			duplicates++
			continue
		case !isUnreachable(err):
			if err == nil {
				l.outage.ended()
			}
			return err
		}
		if l.outage.reason() == nil {
			l.fence.Lost()
		}
		l.outage.began(err)
		if isFinal(err) || time.Now().After(end) {
			return &unreachableError{err}
		}
		time.Sleep(serverRetry)
	}
}

// try commits a group in one transaction. After an error for which isUnreachable returns true, nothing was stored. The
// exception is an *outcomeError, after which it is not known whether the transaction was stored.
func (l *lane) try(group []write) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.patience.server)
	defer cancel()
	if err := l.connect(ctx); err != nil {
		return err
	}
	defer time.AfterFunc(l.patience.transaction, l.pipe.Cut).Stop()
	query, args, stamp, err := l.fence.Fence(ctx)
	if err != nil {
		return l.failed(err)
	}
	l.pipe.Begin(query, args, l.fence.Refused)
	if err := l.carryOut(group); err != nil {
		return l.failed(errors.Join(err, l.pipe.Rollback()))
	}
	if err := l.pipe.Commit(); err != nil {
		return l.resolve(stamp, l.failed(errors.Join(err, l.pipe.Rollback())))
	}
	l.fence.Committed(stamp)
	return nil
}

// carryOut runs the parts of a group. Parts of different sessions are tasks whose statements are interleaved. Work that is
// alone runs after them.
func (l *lane) carryOut(group []write) error {
	err := l.pipe.Run(tasksOf(group)...)
	for i := 0; err == nil && i < len(group); i++ {
		if job := group[i]; job.alone {
			err = l.pipe.Run(postgres.Task{Do: []task{job.inOrder}, Ahead: job.ahead})
		}
	}
	return err
}

// tasksOf returns the tasks of a group: the checks, which lock sessions, and then the parts. Writes that concern one session each are
// sorted by session. All nodes lock sessions in this order, so that no two of them wait for each other.
func tasksOf(group []write) (tasks []postgres.Task) {
	sorted := slices.Clone(group)
	slices.SortStableFunc(sorted, func(a, b write) int { return cmp.Compare(a.session(), b.session()) })
	for _, job := range sorted {
		if job.check != nil {
			tasks = append(tasks, postgres.Task{Do: []task{job.check}, Ahead: true})
		}
	}
	of := map[string]int{} // the index of each session's task
	for _, job := range sorted {
		if job.alone {
			continue
		}
		for _, part := range job.parts {
			i, known := of[part.Session]
			if !known {
				i = len(tasks)
				of[part.Session] = i
				tasks = append(tasks, postgres.Task{Ahead: true})
			}
			tasks[i].Do = append(tasks[i].Do, part.Do)
		}
	}
	return tasks
}

// connect opens the connection if there is none.
func (l *lane) connect(ctx context.Context) (err error) {
	if l.pipe == nil {
		l.pipe, err = l.connector.Pipe(ctx)
	}
	return err
}

// failed returns the error of a transaction. It closes a connection that was lost, or leads to a server that takes no writes, so that
// the next transaction opens another one.
func (l *lane) failed(err error) error {
	isLost := l.pipe.IsLost() || postgres.IsLost(err)
	takesNoWrites := postgres.Code(err) == postgres.ReadOnly
	if !isLost && !takesNoWrites {
		return err
	}
	_ = l.pipe.Close() // it fails if the connection was lost
	l.pipe = nil
	if isLost {
		return errors.Join(errLost, err)
	}
	l.forsake()
	return err
}

// errLost says that the connection to the server was lost in the middle of a transaction.
var errLost = errors.New("the connection to the database server was lost")

// resolve finds out whether a transaction was stored if the answer to its COMMIT was lost. It returns nil if
// it was stored, and otherwise the error lost or an *outcomeError.
func (l *lane) resolve(stamp cluster.Stamp, lost error) error {
	if !isUnreachable(lost) {
		return lost
	}
	for end := time.Now().Add(l.patience.server); ; time.Sleep(serverRetry) {
		ctx, cancel := context.WithTimeout(context.Background(), l.patience.server)
		committed, err := l.fence.Resolve(ctx, stamp)
		cancel()
		switch {
		case err == nil && committed:
			return nil
		case err == nil:
			return lost
		case errors.Is(err, cluster.ErrFenced) || time.Now().After(end):
			l.fence.Forget()
			return &outcomeError{lost: lost, asked: err}
		}
		l.outage.began(err)
	}
}

// outcomeError says that it is not known whether a transaction was stored.
type outcomeError struct {
	lost  error // the error of the transaction
	asked error // why it could not be found out
}

func (e *outcomeError) Error() string {
	return fmt.Sprintf("it is not known whether the latest write was stored: %v", e.lost)
}

func (e *outcomeError) Unwrap() []error { return []error{e.lost, e.asked} }

// isFinal reports whether a transaction that failed with an error must not be repeated.
func isFinal(err error) bool {
	var unknown *outcomeError
	return errors.Is(err, cluster.ErrFenced) || errors.As(err, &unknown)
}

func isUnreachable(err error) bool {
	if disowned := (*disownedError)(nil); errors.As(err, &disowned) {
		return false
	}
	return errors.Is(err, errLost) || postgres.IsLost(err) || errors.Is(err, cluster.ErrFenced) || errors.Is(err, cluster.ErrLost)
}

// close commits the queued writes, runs short chores if the lane has chores, and closes the connection.
func (l *lane) close() error {
	return l.group.close(func() error {
		if l.chores != nil && l.outage.reason() == nil {
			l.chores.finish()
		}
		return l.disconnect()
	})
}

func (l *lane) disconnect() error {
	if l.pipe == nil {
		return nil
	}
	return l.pipe.Close()
}
