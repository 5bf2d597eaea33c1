package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Role is something that one node does at a time, such as polling for a bot. Its holder has it
// until it gives it up or dies.
type Role struct {
	Name string
	Term int64  // grows by one with each holder
	Data string // what the previous holder has saved

	node *Node // nil for a process without a cluster
	id   int64 // ID of the membership that holds the role
}

type roleKey struct{}

// RoleOf returns the role that the work of a context belongs to, see Hold; nil = to none.
func RoleOf(ctx context.Context) *Role {
	role, _ := ctx.Value(roleKey{}).(*Role)
	return role
}

// errRoleLost means that another node has a role meanwhile.
var errRoleLost = fmt.Errorf("%w, and another node may have the role", ErrLost)

// Hold runs work while this node has the role of a name. It waits until no other node has it,
// and runs work again if the node loses the role and gets it back. The context of work ends with ctx, when the
// node is no longer valid, or when it hands its work over; RoleOf returns the role of it. When
// work returns for another reason, Hold gives up the role and returns its error. A process without a cluster, which is
// a nil Node, has every role.
func (n *Node) Hold(ctx context.Context, name string, work func(ctx context.Context, role *Role) error) error {
	if n == nil {
		return work(ctx, &Role{Name: name})
	}
	for {
		role, err := n.Obtain(ctx, name)
		if err != nil {
			return err
		}
		err = role.Do(ctx, func(ctx context.Context) error { return work(ctx, role) })
		if !errors.Is(err, ErrLost) || ctx.Err() != nil {
			return err
		}
	}
}

// Do runs work while this node has the role, as Hold does, and then gives it up. It returns the error of work, or
// ErrLost if the node no longer has the role.
func (r *Role) Do(ctx context.Context, work func(ctx context.Context) error) error {
	defer r.Release(ctx)
	held, cancel := r.node.whileHeld(ctx, r)
	defer cancel()
	if MembershipOf(held) != r.id { // the node has joined anew since
		return errRoleLost
	}
	err := work(held)
	switch why := context.Cause(held); {
	case errors.Is(why, ErrLost):
		return why
	case errors.Is(why, errHandsOver):
		return fmt.Errorf("%w: %w", ErrLost, why)
	}
	return err
}

// whileHeld returns the context of the work of a role.
func (n *Node) whileHeld(ctx context.Context, role *Role) (context.Context, context.CancelFunc) {
	valid, cancelValid := n.While(context.WithValue(ctx, roleKey{}, role))
	held, cancel := n.keeping(valid)
	return held, func() {
		cancel()
		cancelValid()
	}
}

// Obtain waits until this node has a role. The caller gives it up with Release.
func (n *Node) Obtain(ctx context.Context, name string) (*Role, error) {
	failing := false
	for {
		handsOver, change := n.HandsOver()
		var role *Role
		var err error
		if !handsOver {
			role, err = n.Take(ctx, name)
		}
		if role != nil {
			return role, nil
		}
		if err != nil && !failing && ctx.Err() == nil {
			n.log.Warn("role not taken", "role", name, "error", err)
		}
		failing = err != nil
		retry := time.NewTimer(n.config.Heartbeat)
		select {
		case <-change:
		case <-retry.C:
		case <-ctx.Done():
		}
		retry.Stop()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// Take gets a role if no node has it, and returns nil otherwise. The caller gives it up with
// Release. Hold is for work that goes on. Take does not ask whether this node drains.
func (n *Node) Take(ctx context.Context, name string) (*Role, error) {
	if !n.Valid() || !n.reserve(name) {
		return nil, nil
	}
	role := &Role{Name: name, node: n, id: n.ID()}
	asking, cancel := n.unbroken(ctx)
	defer cancel()
	err := n.pool.QueryRow(asking, `
		INSERT INTO roles AS held (name, node_id, term, data)
		SELECT $1, id, 1, '' FROM nodes WHERE id = $2 AND dead_at IS NULL
		ON CONFLICT (name) DO UPDATE SET node_id = EXCLUDED.node_id, term = held.term + 1
		WHERE held.node_id IS NULL OR held.node_id = EXCLUDED.node_id
			OR NOT EXISTS (SELECT 1 FROM nodes WHERE id = held.node_id AND dead_at IS NULL)
		RETURNING term, data`, name, role.id).Scan(&role.Term, &role.Data)
	if err == nil {
		n.log.Info("role taken", "role", name, "node", role.id, "term", role.Term)
		if ctx.Err() != nil {
			role.Release(ctx)
			return nil, ctx.Err()
		}
		return role, nil
	}
	n.unreserve(name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return nil, err
}

// unbroken returns a context for a statement that is not cancelled when ctx ends. The server might carry out a
// cancelled statement, and this node would not know.
func (n *Node) unbroken(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), n.config.TTL/2)
}

// reserve keeps two goroutines of this node from having the same role.
func (n *Node) reserve(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held[name] {
		return false
	}
	n.held[name] = true
	return true
}

func (n *Node) unreserve(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.held, name)
}

// Release gives a role up, so that another node takes it at once.
func (r *Role) Release(ctx context.Context) {
	defer r.node.unreserve(r.Name)
	r.node.release(ctx, r)
}

// release works after the end of ctx, too. If the database can't be reached, this node gives the role up with
// its next renewal, see releaseUnknown.
func (n *Node) release(ctx context.Context, role *Role) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.config.Heartbeat)
	defer cancel()
	tag, err := n.pool.Exec(ctx, `UPDATE roles SET node_id = NULL WHERE name = $1 AND node_id = $2 AND term = $3`, role.Name, role.id, role.Term)
	if err != nil {
		n.log.Warn("role not released", "role", role.Name, "error", err)
		return
	}
	if tag.RowsAffected() > 0 {
		n.log.Info("role released", "role", role.Name, "node", role.id)
		n.Publish(changeTopic, "")
	}
}

// releaseUnknown gives up the roles that the database says this node has, and of which it does not know: the
// database could not be reached when it answered that one was taken, or when one was to be given up.
func (n *Node) releaseUnknown(ctx context.Context, stored []Role) {
	for _, role := range stored {
		n.mu.Lock()
		known := n.held[role.Name]
		n.mu.Unlock()
		if !known { // whoever takes it meanwhile has another term
			n.release(ctx, &role)
		}
	}
}

// IsHeld reports whether this node has the role, as far as it knows: it asks only its memory.
func (r *Role) IsHeld() bool { return r.node == nil || r.node.Valid() && r.node.ID() == r.id }

// Check asks the database whether this node still has the role. It fails with ErrLost if it has not, and with other
// errors while the database can't be reached.
func (r *Role) Check(ctx context.Context) error {
	if r.node == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.node.config.TTL/2)
	defer cancel()
	var has bool
	err := r.node.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM roles JOIN nodes ON nodes.id = roles.node_id AND nodes.dead_at IS NULL
			WHERE roles.name = $1 AND roles.node_id = $2 AND roles.term = $3)`, r.Name, r.id, r.Term).Scan(&has)
	if err == nil && !has {
		return r.Lost()
	}
	return err
}

// Fence returns a query that finds a row while this node has the role. No other node gets it before the end of the
// transaction in which it was found. Where it finds none, the caller rolls back and calls Lost.
func (r *Role) Fence() (query string, args []any) {
	return `SELECT 1 FROM roles WHERE name = $1 AND node_id = $2 AND term = $3 FOR SHARE`, []any{r.Name, r.id, r.Term}
}

// Lost returns an error that is ErrLost, and has the node find out whether it was declared dead.
func (r *Role) Lost() error {
	r.node.CheckMembership()
	return errRoleLost
}

// Save stores data for this holder and the next ones. It fails if another node has the role.
func (r *Role) Save(ctx context.Context, data string) error {
	tag, err := r.node.pool.Exec(ctx, `
		UPDATE roles SET data = $4 WHERE name = $1 AND node_id = $2 AND term = $3
			AND EXISTS (SELECT 1 FROM nodes WHERE id = $2 AND dead_at IS NULL)`, r.Name, r.id, r.Term, data)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return r.Lost()
	}
	r.Data = data
	return nil
}

// Holders reads which nodes that are not dead have the roles whose names begin with a prefix.
func (n *Node) Holders(ctx context.Context, prefix string) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, n.config.TTL/2)
	defer cancel()
	rows, _ := n.pool.Query(ctx, `
		SELECT roles.name, nodes.id FROM roles JOIN nodes ON nodes.id = roles.node_id AND nodes.dead_at IS NULL
		WHERE starts_with(roles.name, $1)`, prefix)
	holders := map[string]int64{}
	var name string
	var id int64
	_, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error {
		holders[name] = id
		return nil
	})
	return holders, err
}

// rolesByNode reads the names of the roles that each node has. Those that only say that a process lives are left out.
func (n *Node) rolesByNode(ctx context.Context) (map[int64][]string, error) {
	rows, _ := n.pool.Query(ctx, `SELECT node_id, name FROM roles WHERE node_id IS NOT NULL AND name NOT LIKE 'budget:%' ORDER BY name`)
	byNode := map[int64][]string{}
	var id int64
	var name string
	_, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		byNode[id] = append(byNode[id], name)
		return nil
	})
	return byNode, err
}
