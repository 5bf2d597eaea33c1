package cluster

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Lane makes the transactions of one writer of this node safe against a takeover. Each begins
// with [Lane.Begin], which changes the lane's row: that fails once the node was declared dead, since
// the declaration deletes the row; and the declaration waits for a transaction that has already
// changed it. So either a transaction is committed before the node is dead, or it is not
// committed at all.
//
// The row also counts the lane's transactions, by which [Lane.Resolve] finds out whether a
// commit happened whose answer was lost.
//
// A lane is used by one goroutine at a time.
type Lane struct {
	node   *Node
	number int

	mu  sync.Mutex
	id  int64 // ID of the membership that seq belongs to; 0 = seq is not known
	seq int64 // number of the latest committed transaction
}

// Stamp is what a transaction has written to its lane's row.
type Stamp struct{ id, seq int64 }

// Lane returns the lane of a number from 0 to Config.Lanes - 1. The caller keeps it: two of the same
// number must not be used.
func (n *Node) Lane(number int) *Lane { return &Lane{node: n, number: number} }

// Execer runs statements in a transaction, as *sql.Tx does. Parameters are numbered ($1).
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Begin fences a transaction, as its first statement. It returns ErrFenced when this node was declared
// dead; the caller then rolls back. After the commit the caller reports it with Committed, or,
// when the answer was lost, asks Resolve, or calls Forget. After a rollback it does neither.
func (l *Lane) Begin(ctx context.Context, tx Execer) (Stamp, error) {
	query, args, stamp, err := l.Fence(ctx)
	if err != nil {
		return Stamp{}, err
	}
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return Stamp{}, err
	}
	changed, err := result.RowsAffected()
	if err != nil {
		return Stamp{}, err
	}
	if changed == 0 {
		return Stamp{}, l.Refused()
	}
	return stamp, nil
}

// Fence returns the statement that Begin runs, for a writer that sends a transaction in one
// pipeline. Where it changes no row, the caller rolls back and returns the error of Refused.
func (l *Lane) Fence(ctx context.Context) (query string, args []any, stamp Stamp, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := l.node.ID(); l.id != id {
		if err := l.read(ctx, id); err != nil {
			return "", nil, Stamp{}, err
		}
	}
	stamp = Stamp{id: l.id, seq: l.seq + 1}
	return `UPDATE lanes SET seq = $3 WHERE node_id = $1 AND lane = $2 AND seq = $3 - 1`,
		[]any{stamp.id, int64(l.number), stamp.seq}, stamp, nil
}

// read reads where the lane of a membership stands. It waits for the server to end a transaction of the lane whose
// connection was lost.
func (l *Lane) read(ctx context.Context, id int64) error {
	err := l.node.pool.QueryRow(ctx, `SELECT seq FROM lanes WHERE node_id = $1 AND lane = $2 FOR UPDATE`, id, int64(l.number)).Scan(&l.seq)
	if errors.Is(err, pgx.ErrNoRows) {
		l.node.CheckMembership()
		return ErrFenced
	}
	if err != nil {
		return err
	}
	l.id = id
	return nil
}

// Refused returns ErrFenced, and has the node find out whether it was declared dead.
func (l *Lane) Refused() error {
	l.Forget()
	l.node.CheckMembership()
	return ErrFenced
}

// Lost has the node find out whether it can reach the database.
func (l *Lane) Lost() { l.node.CheckMembership() }

// Forget has the next transaction read where the lane stands. The caller gives up to ask Resolve about the latest one.
func (l *Lane) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = 0
}

// Committed reports that a transaction is committed.
func (l *Lane) Committed(stamp Stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == stamp.id {
		l.seq = stamp.seq
	}
}

// Resolve finds out whether a transaction was committed whose COMMIT got no answer. If it
// was not, it never will be: Resolve waits for the server to end it, and uses up its
// number. It returns ErrFenced when this node was declared dead, so that nobody knows; what the
// transaction did is then done anew by another node unless the store has it. Other errors mean that the
// database can't be reached; the caller asks again.
func (l *Lane) Resolve(ctx context.Context, stamp Stamp) (committed bool, err error) {
	// The number after the stamp's says that it was not committed, also if the answer to this COMMIT is lost.
	next := Stamp{id: stamp.id, seq: stamp.seq + 1}
	err = pgx.BeginFunc(ctx, l.node.pool, func(tx pgx.Tx) error {
		var seq int64
		err := tx.QueryRow(ctx, `SELECT seq FROM lanes WHERE node_id = $1 AND lane = $2 FOR UPDATE`, stamp.id, int64(l.number)).Scan(&seq)
		if err != nil {
			return err
		}
		committed = seq == stamp.seq
		if committed {
			return nil
		}
		_, err = tx.Exec(ctx, `UPDATE lanes SET seq = $3 WHERE node_id = $1 AND lane = $2`, stamp.id, int64(l.number), next.seq)
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, l.Refused()
	case err != nil:
		return false, err
	case committed:
		l.Committed(stamp)
	default:
		l.Committed(next)
	}
	return committed, nil
}
