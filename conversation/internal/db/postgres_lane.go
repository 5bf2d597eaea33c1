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

// lane is one of the connections that write to a PostgreSQL database. Each of its transactions is
// stored only while the other nodes take this process for alive.
type lane struct {
	fence     *cluster.Lane
	connector *postgres.Connector
	outage    *outage
	patience  patience
	chores    *background // nil for all lanes but one
	group     *committer  // only whoever has its turn uses pipe

	pipe *postgres.Pipe // nil while there is no connection
}

func newLane(fence *cluster.Lane, connector *postgres.Connector, outage *outage, chores *background) *lane {
	l := &lane{fence: fence, connector: connector, outage: outage, patience: defaultPatience, chores: chores}
	l.group = newCommitter(l.transact, func() {
		if chores != nil {
			chores.wake()
		}
	})
	return l
}

// patience is how long a lane waits.
type patience struct {
	server time.Duration // for a server that can't be reached

	// The connection to a server that does not answer is broken when a transaction has taken this long.
	transaction time.Duration
}

var defaultPatience = patience{server: 10 * time.Second, transaction: 30 * time.Second}

const (
	serverRetry  = 200 * time.Millisecond // pause between two tries
	mostRepeated = 20                     // tries of a transaction that collides with others

	// mostConflicts is how often a transaction is repeated that adds a row which is already there. It did not see the row when
	// another node added it at the same moment, and sees it now.
	mostConflicts = 2

	statementWait = 15 * time.Second // after which the server ends a statement, for example one that waits for a lock
)

// transact commits a group. While the server can't be reached, it tries again, for a while. It does not
// repeat what was refused because this node was declared dead: another node may have done it meanwhile.
func (l *lane) transact(group ...write) error {
	collisions, conflicts := 0, 0
	for end := time.Now().Add(l.patience.server); ; {
		err := l.try(group)
		switch {
		case postgres.IsRepeatable(err) && collisions < mostRepeated:
			collisions++
			time.Sleep(time.Duration(collisions) * time.Millisecond)
			continue
		case postgres.Code(err) == postgres.UniqueViolation && conflicts < mostConflicts:
			conflicts++
			continue
		case !isUnreachable(err):
			if err == nil {
				l.outage.ended()
			}
			return err
		}
		l.outage.began(err)
		if isFinal(err) || time.Now().After(end) {
			return &unreachableError{err}
		}
		time.Sleep(serverRetry)
	}
}

// try commits a group in one transaction. An error that isUnreachable means that nothing was stored, or, if
// also asking failed, that nobody knows.
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

// carryOut runs the parts of a group: those that concern different sessions by turns, and what may concern all of
// them alone.
func (l *lane) carryOut(group []write) error {
	err := l.pipe.Run(tasksOf(group)...)
	for i := 0; err == nil && i < len(group); i++ {
		if job := group[i]; job.alone {
			err = l.pipe.Run(postgres.Task{Do: []task{job.inOrder}, Ahead: job.ahead})
		}
	}
	return err
}

// tasksOf returns the tasks of a group: first what checks and locks sessions, and then the parts. Writes of one session each are in the
// order of their sessions. All nodes lock sessions in this order, so that none waits for another one that waits for it.
func tasksOf(group []write) (tasks []postgres.Task) {
	sorted := slices.Clone(group)
	slices.SortStableFunc(sorted, func(a, b write) int { return cmp.Compare(a.session(), b.session()) })
	for _, job := range sorted {
		if job.check != nil {
			tasks = append(tasks, postgres.Task{Do: []task{job.check}, Ahead: true})
		}
	}
	of := map[string]int{} // the task of a session
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

// failed returns the error of a transaction. If the connection is lost, the next one gets another.
func (l *lane) failed(err error) error {
	if !l.pipe.IsLost() && !postgres.IsLost(err) {
		return err
	}
	_ = l.pipe.Close() // which fails for a connection that is lost
	l.pipe = nil
	return errors.Join(errLost, err)
}

// errLost says that the connection to the server was lost in the middle of a transaction.
var errLost = errors.New("the connection to the database server was lost")

// resolve finds out whether a transaction was stored whose COMMIT got no answer, and returns
// nil if it was.
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

// outcomeError says that nobody knows whether a transaction was stored.
type outcomeError struct {
	lost  error // of the transaction
	asked error // of the question whether it was stored
}

func (e *outcomeError) Error() string {
	return fmt.Sprintf("it is not known whether the latest write was stored: %v", e.lost)
}

func (e *outcomeError) Unwrap() []error { return []error{e.lost, e.asked} }

// isFinal reports whether a transaction must not be repeated.
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

// close commits the writes that wait, and runs chores if the lane has some.
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
