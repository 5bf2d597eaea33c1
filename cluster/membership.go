package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// databaseTime is the database's time in milliseconds.
const databaseTime = `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// keptFor is how long the rows of dead nodes are kept, in milliseconds.
const keptFor = 24 * 60 * 60 * 1000

// readOnly is the code of a server's error that it takes no writes: it is a standby, for example.
const readOnly = "25006"

// Valid reports whether this node's membership was renewed recently enough that no other node
// has declared it dead. A node that is not valid must not send, poll or listen to platforms.
func (n *Node) Valid() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.alive.Err() == nil && n.config.Now().Sub(n.renewed) < n.validity()
}

// validity is how long a renewal counts on this node: shorter than the TTL, so that
// it stops before others take over.
func (n *Node) validity() time.Duration { return n.config.TTL - n.config.Heartbeat }

// While returns a context that ends with ctx, or with the cause ErrLost when this node is no longer
// valid. It carries this membership, which MembershipOf returns. A process without a cluster, which
// is a nil Node, is always valid.
func (n *Node) While(ctx context.Context) (context.Context, context.CancelFunc) {
	if n == nil {
		return context.WithCancel(ctx)
	}
	n.mu.Lock()
	alive, id := n.alive, n.id
	n.mu.Unlock()
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, membershipKey{}, id))
	release := context.AfterFunc(alive, func() { cancel(ErrLost) })
	return ctx, func() {
		release()
		cancel(context.Canceled)
	}
}

type membershipKey struct{}

// MembershipOf returns the number of the membership that the work of a context belongs to, see While;
// 0 = to none.
func MembershipOf(ctx context.Context) int64 {
	id, _ := ctx.Value(membershipKey{}).(int64)
	return id
}

// Holds reports whether the membership that the work of a context belongs to is valid. It is true for a context of no
// membership, and for a process without a cluster, which is a nil Node.
func (n *Node) Holds(ctx context.Context) bool {
	id := MembershipOf(ctx)
	return n == nil || id == 0 || n.ID() == id && n.Valid()
}

// WithoutMembership returns a context that carries no membership, for a write that is true whoever owns the session now.
func WithoutMembership(ctx context.Context) context.Context {
	return context.WithValue(ctx, membershipKey{}, int64(0))
}

// Confirm waits until a renewal of the membership has succeeded a short while ago, so that what this node does next it can most
// probably store. A process without a cluster, which is a nil Node, does not wait. The error is that of ctx.
func (n *Node) Confirm(ctx context.Context) error {
	for n != nil {
		renewal := n.confirmed.wait()
		n.mu.Lock()
		failing, recent := n.failing, n.config.Now().Sub(n.renewed) < 2*n.config.Heartbeat
		n.mu.Unlock()
		if !failing && recent {
			return nil
		}
		if !failing { // else it is tried at every heartbeat
			n.CheckMembership()
		}
		select {
		case <-renewal:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Await waits until this node is valid.
func (n *Node) Await(ctx context.Context) error {
	for {
		change := n.changes.wait()
		if n.Valid() {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// join stores a new membership with its lanes.
func (n *Node) join(ctx context.Context) error {
	sent := n.config.Now()
	n.mu.Lock()
	draining, former := n.draining, n.id
	n.mu.Unlock()
	var id int64
	err := pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		if err := n.checkSchema(ctx, tx); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `
			INSERT INTO nodes (name, url, version, command, schema, bus, draining, joined_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, `+databaseTime+`, `+databaseTime+` + $8) RETURNING id`,
			n.config.Name, n.config.URL, n.config.Version, n.config.Command, n.config.Schema, string(n.bus.mode), flag(draining), n.config.TTL.Milliseconds()).Scan(&id)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO lanes (node_id, lane, seq) SELECT $1::bigint, lane, 0 FROM generate_series(0, $2::bigint - 1) AS lane`, id, int64(n.config.Lanes))
		if err == nil && former != 0 { // what the process has told of its channels holds as before
			_, err = tx.Exec(ctx, `UPDATE channel_health SET node_id = $1 WHERE node_id = $2`, id, former)
		}
		return err
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.id = id
	n.mu.Unlock()
	n.extend(sent)
	n.log.Info("joined the cluster", "node", id, "name", n.config.Name, "bus", n.bus.mode)
	return nil
}

// checkSchema refuses a schema that this program can't work with. A migration that makes such a schema waits for the
// end of tx, and then sees that this node has joined.
func (n *Node) checkSchema(ctx context.Context, tx pgx.Tx) error {
	if n.config.Schema == 0 {
		return nil
	}
	var oldest int64
	err := tx.QueryRow(ctx, `SELECT oldest FROM compatibility FOR SHARE`).Scan(&oldest)
	if err == nil && oldest > n.config.Schema {
		err = fmt.Errorf("its schema needs a gateway that knows version %d of it, and this one knows only up to %d: use a newer gateway", oldest, n.config.Schema)
	}
	return err
}

// extend counts a renewal that was sent at a time.
func (n *Node) extend(sent time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := n.validity() - n.config.Now().Sub(sent)
	if left <= 0 {
		return
	}
	n.renewed = sent
	if n.expiry != nil && n.expiry.Stop() && n.alive.Err() == nil {
		n.expiry.Reset(left)
		return
	}
	n.alive, n.lose = context.WithCancelCause(context.Background())
	lose := n.lose
	n.expiry = time.AfterFunc(left, func() {
		n.log.Warn("contact with the database lost; work stops until it is back", "node", n.ID())
		lose(ErrLost)
	})
	n.changes.send()
}

// renewUntil renews the membership until ctx ends.
func (n *Node) renewUntil(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failing := false; ; {
		select {
		case <-timer.C:
		case <-n.renewals:
		case <-ctx.Done():
			return
		}
		wait, err := n.renew(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			n.log.Warn("membership not renewed", "error", err)
		}
		failing = err != nil
		n.mu.Lock()
		n.failing = failing
		n.mu.Unlock()
		n.confirmed.send()
		timer.Reset(wait)
	}
}

// renew renews the membership, reads who else is alive, and declares dead who is not. It
// returns how long to wait until the next time.
func (n *Node) renew(ctx context.Context) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.config.TTL/2)
	defer cancel()
	sent := n.config.Now()
	renewed, members, roles, err := n.exchange(ctx)
	if err != nil {
		n.observer.forget()
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == readOnly {
			n.pool.Reset() // new connections may lead to a server that takes writes
		}
		return n.config.Heartbeat, err
	}
	if !renewed {
		return n.rejoin(ctx)
	}
	received := n.config.Now()
	n.extend(sent)
	if len(members) > 0 {
		n.setClock(members[0].read, sent, received)
	}
	n.setLive(members)
	n.releaseUnknown(ctx, roles)
	n.giveUpDoubtful(ctx)
	dead, wait := n.observer.read(sent, received, members)
	for _, m := range dead {
		if err := n.declare(ctx, m); err != nil {
			n.log.Warn("node not declared dead yet", "node", m.ID, "name", m.Name, "error", err)
		}
	}
	return min(wait, n.config.Heartbeat), nil
}

// exchange renews the membership and reads all members and this node's roles, in one round trip.
func (n *Node) exchange(ctx context.Context) (renewed bool, members []Member, roles []Role, err error) {
	id := n.ID()
	batch := &pgx.Batch{}
	load := n.ownLoad()
	batch.Queue(`UPDATE nodes SET expires_at = `+databaseTime+` + $2, serves = $3, runs = $4, slots = $5 WHERE id = $1 AND dead_at IS NULL`,
		id, n.config.TTL.Milliseconds(), strings.Join(load.Serves, " "), load.Runs, load.Slots).
		Exec(func(tag pgconn.CommandTag) error {
			renewed = tag.RowsAffected() == 1
			return nil
		})
	batch.Queue(selectMembers).Query(func(rows pgx.Rows) (err error) {
		members, err = pgx.CollectRows(rows, n.scanMember)
		return err
	})
	batch.Queue(`SELECT name, term FROM roles WHERE node_id = $1`, id).Query(func(rows pgx.Rows) (err error) {
		roles, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Role, error) {
			role := Role{node: n, id: id}
			return role, row.Scan(&role.Name, &role.Term)
		})
		return err
	})
	return renewed, members, roles, n.pool.SendBatch(ctx, batch).Close()
}

// rejoin joins anew after this node was declared dead. Whatever worked as the old member ends.
func (n *Node) rejoin(ctx context.Context) (wait time.Duration, err error) {
	n.log.Warn("this node was declared dead; it joins anew", "node", n.ID())
	n.mu.Lock()
	n.lose(ErrLost)
	n.mu.Unlock()
	n.observer.forget()
	if err := n.join(ctx); err != nil {
		return n.config.Heartbeat, err
	}
	n.Publish(changeTopic, "")
	return 0, nil
}

// CheckMembership renews the membership at once, which notices that this node was declared dead or can't reach the database.
func (n *Node) CheckMembership() {
	select {
	case n.renewals <- struct{}{}:
	default:
	}
}

// declare declares a member dead and takes its lanes away, so that it commits nothing any more. Of
// several nodes that do so at once, one succeeds.
func (n *Node) declare(ctx context.Context, m Member) error {
	done, err := n.bury(ctx, m.ID, m.expires)
	if err != nil || !done {
		return err
	}
	n.log.Warn("node declared dead", "node", m.ID, "name", m.Name)
	n.Publish(changeTopic, "")
	n.changed()
	return nil
}

// anyExpiry makes bury ignore when a membership expires.
const anyExpiry = -1

// bury ends a membership that was last renewed until expires, and reports whether it did. It waits for
// the transactions of the member that are under way.
func (n *Node) bury(ctx context.Context, id, expires int64) (done bool, err error) {
	err = pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE nodes SET dead_at = `+databaseTime+`
			WHERE id = $1 AND dead_at IS NULL AND ($2::bigint = -1 OR expires_at = $2::bigint)`, id, expires)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		done = true
		if _, err := tx.Exec(ctx, `DELETE FROM lanes WHERE node_id = $1`, id); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM notices WHERE node_id = $1`, id)
		return err
	})
	return done && err == nil, err
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
