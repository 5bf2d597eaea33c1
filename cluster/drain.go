package cluster

import (
	"context"
	"errors"
	"slices"
)

// A node that drains hands its sessions and roles over to the others and takes none on, so that it can be
// stopped without anybody noticing. It goes on while no other node may be given its work: one that does not drain as
// well, and serves all that this one does.

// ErrNoNode means that no living node has a number.
var ErrNoNode = errors.New("there is no such node any more")

// Drain stores whether a node, which may be another one, is to drain. That node sees it within a heartbeat.
func (n *Node) Drain(ctx context.Context, id int64, draining bool) error {
	tag, err := n.pool.Exec(ctx, `UPDATE nodes SET draining = $2 WHERE id = $1 AND dead_at IS NULL`, id, flag(draining))
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return ErrNoNode
	}
	n.CheckMembership()
	return n.Publish(changeTopic, "")
}

// IsDraining reports whether this node was told to drain.
func (n *Node) IsDraining() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.draining
}

// HandsOver reports whether this node drains and there is another one to take over. change is closed when
// the answer may be another one. A process without a cluster, which is a nil Node, never does.
func (n *Node) HandsOver() (is bool, change <-chan struct{}) {
	if n == nil {
		return false, nil
	}
	change = n.changes.wait()
	return n.IsDraining() && slices.ContainsFunc(n.takers(), func(m Member) bool { return m.ID != n.ID() }), change
}

// MayTakeFrom reports whether a node may be given the work of another one.
func (m Member) MayTakeFrom(of Member) bool {
	return m.takesWork() && !slices.ContainsFunc(of.Serves, func(one string) bool { return !slices.Contains(m.Serves, one) })
}

// takesWork reports whether a node works sessions and may be given more.
func (m Member) takesWork() bool { return m.Command == Serves && !m.expired && !m.Draining }

// WhileKeeping runs work, whose context ends when this node hands its work over, and runs it again when the
// node is to keep its work again. It returns when ctx ends or work has returned by itself.
func (n *Node) WhileKeeping(ctx context.Context, work func(ctx context.Context)) {
	for ctx.Err() == nil {
		is, change := n.HandsOver()
		if is {
			select {
			case <-change:
			case <-ctx.Done():
			}
			continue
		}
		working, cancel := n.keeping(ctx)
		work(working)
		why := context.Cause(working)
		cancel()
		if !errors.Is(why, errHandsOver) {
			return
		}
	}
}

// keeping returns a context that ends with ctx, or with the cause errHandsOver when this node hands its work over.
func (n *Node) keeping(ctx context.Context) (context.Context, context.CancelFunc) {
	working, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			is, change := n.HandsOver()
			if is {
				cancel(errHandsOver)
			}
			select {
			case <-change: // never for a nil Node
			case <-working.Done():
				return
			}
		}
	}()
	return working, func() { cancel(context.Canceled) }
}
