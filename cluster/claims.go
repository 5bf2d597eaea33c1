package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

// claims are the sessions that this node works. A session's row names its owner; another node
// takes it over only when the owner has given it up or is dead.
type claims struct {
	mu     sync.Mutex
	byName map[string]*claim

	// The sessions that the database may name as owned by this node without the node's knowledge, because the answer to a
	// statement about them was lost; with the membership that may own each.
	doubtful map[string]int64

	asking chan struct{} // holds a token for each connection that asks the database about a session
}

// maxAsking is how many connections may ask about sessions at the same time. At least one is left for renewals of the
// membership: after a takeover or an outage, thousands of sessions are claimed at once.
const maxAsking = maxConns - 1

// claim is a session that goroutines of this node hold, or are about to.
type claim struct {
	busy    sync.Mutex // held while the database is asked
	holders int        // number of callers that hold the claim or wait for busy; guarded by claims.mu
	id      int64      // ID of the membership that owns the session; 0 = none yet; guarded by claims.mu
}

// HeldError says which node owns a session.
type HeldError struct {
	Node int64
	Name string
}

func (e *HeldError) Error() string { return fmt.Sprintf("held by the node %s (%d)", e.Name, e.Node) }

// Claim makes this node the owner of the session with a key until each caller has called release, or the
// node dies. A session that no row is stored of gets one. Claim does not wait: it
// fails with *HeldError when another node owns the session, and with ErrLost while this one is not valid.
// Whatever writes to the session checks in the same transaction that its owner is this node.
func (n *Node) Claim(ctx context.Context, key string) (release func(), err error) {
	c := n.claims.hold(key)
	c.busy.Lock()
	defer c.busy.Unlock()
	if !n.Owns(key) {
		id := n.ID()
		asked, err := n.askToClaim(ctx, key, id)
		if err != nil {
			n.claims.release(c)
			n.claims.forget(key, c)
			if held := (*HeldError)(nil); asked && !errors.As(err, &held) {
				n.claims.doubt(id, key)
			}
			return nil, err
		}
		n.claims.mu.Lock()
		c.id = id
		n.claims.mu.Unlock()
	}
	return sync.OnceFunc(func() { n.unclaim(key, c) }), nil
}

// Owns reports whether this node has claimed a session and is valid. It asks only its memory. A node
// that has joined anew owns nothing of what it had before.
func (n *Node) Owns(key string) bool {
	if !n.Valid() {
		return false
	}
	id := n.ID()
	n.claims.mu.Lock()
	defer n.claims.mu.Unlock()
	c := n.claims.byName[key]
	return c != nil && c.id == id
}

// Claimable is a session that no other node owns.
type Claimable struct {
	Key  string
	Left bool // the node that had the session is dead, or this node has it already
}

// Claimable returns those of the sessions that no other node owns.
func (n *Node) Claimable(ctx context.Context, keys []string) ([]Claimable, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rows, _ := n.pool.Query(ctx, `
		SELECT wanted.key, EXISTS (SELECT 1 FROM sessions WHERE sessions.key = wanted.key AND owner IS NOT NULL)
		FROM unnest($1::text[]) AS wanted (key)
		WHERE NOT EXISTS (
			SELECT 1 FROM sessions JOIN nodes ON nodes.id = sessions.owner
			WHERE sessions.key = wanted.key AND nodes.dead_at IS NULL AND nodes.id <> $2)`, keys, n.ID())
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Claimable])
}

// hold adds a holder of a session.
func (cs *claims) hold(key string) *claim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.byName[key]
	if c == nil {
		c = &claim{}
		cs.byName[key] = c
	}
	c.holders++
	return c
}

// release removes a holder. After the last one the session is not owned any more.
func (cs *claims) release(c *claim) (id int64, last bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	id = c.id
	if c.holders--; c.holders > 0 {
		return id, false
	}
	c.id = 0
	return id, true
}

// forget removes a claim that nobody holds or waits for.
func (cs *claims) forget(key string, c *claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.holders == 0 {
		delete(cs.byName, key)
	}
}

// askToClaim calls claim when a connection is free for it. asked is false if none was in time.
func (n *Node) askToClaim(ctx context.Context, key string, id int64) (asked bool, err error) {
	waiting, cancel := n.unbroken(ctx)
	defer cancel()
	if err := n.claims.ask(waiting); err != nil {
		return false, err
	}
	defer n.claims.answered()
	return true, n.claim(ctx, key, id)
}

// ask waits until a connection may ask the database about a session. The caller calls answered if the error is nil.
func (cs *claims) ask(ctx context.Context) error {
	select {
	case cs.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (cs *claims) answered() { <-cs.asking }

// claim stores that a membership of this node owns a session.
func (n *Node) claim(ctx context.Context, key string, id int64) error {
	ctx, cancel := n.unbroken(ctx)
	defer cancel()
	for {
		if !n.Valid() {
			return ErrLost
		}
		tag, err := n.pool.Exec(ctx, `
			UPDATE sessions SET owner = $2
			WHERE key = $1 AND EXISTS (SELECT 1 FROM nodes WHERE id = $2 AND dead_at IS NULL)
				AND (owner IS NULL OR owner = $2 OR NOT EXISTS (SELECT 1 FROM nodes WHERE id = sessions.owner AND dead_at IS NULL))`, key, id)
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
		held := &HeldError{}
		err = n.pool.QueryRow(ctx, `
			SELECT nodes.id, nodes.name FROM sessions JOIN nodes ON nodes.id = sessions.owner
			WHERE sessions.key = $1 AND nodes.dead_at IS NULL AND nodes.id <> $2`, key, id).Scan(&held.Node, &held.Name)
		if err == nil {
			return held
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		// The session has no row, it was released a moment ago, or this node is dead.
		_, err = n.pool.Exec(ctx, `
			INSERT INTO sessions (key, channel, created_at)
			SELECT $1, split_part($1, ':', 1), `+databaseTime+` WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE key = $1)
			ON CONFLICT (key) DO NOTHING`, key)
		if err != nil {
			return err
		}
		if n.ID() != id {
			return ErrLost
		}
		n.CheckMembership()
	}
}

// unclaim gives a session up when its last holder has released it. Whoever claims it meanwhile waits
// until the database has taken that.
func (n *Node) unclaim(key string, c *claim) {
	c.busy.Lock()
	defer c.busy.Unlock()
	id, last := n.claims.release(c)
	if !last {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.config.TTL/2)
	defer cancel()
	err := n.claims.ask(ctx)
	if err == nil {
		_, err = n.pool.Exec(ctx, `UPDATE sessions SET owner = NULL WHERE key = $1 AND owner = $2`, key, id)
		n.claims.answered()
	}
	n.claims.forget(key, c)
	if err != nil {
		n.log.Warn("session not given up yet", "session", key, "error", err)
		n.claims.doubt(id, key)
	}
}

// doubt records sessions that a membership may own without this node's knowledge. The caller holds none of them.
func (cs *claims) doubt(id int64, keys ...string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, key := range keys {
		cs.doubtful[key] = id
	}
}

// maxDoubtful bounds how many sessions one statement gives up.
const maxDoubtful = 1000

// giveUpDoubtful gives up the sessions that this node may own without knowing it, so that other nodes can work them. It
// leaves out those that a goroutine is about to claim: the claim settles who owns them.
func (n *Node) giveUpDoubtful(ctx context.Context) {
	keys, done := n.claims.takeDoubtful(n.ID())
	defer done()
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.config.Heartbeat)
	defer cancel()
	_, err := n.pool.Exec(ctx, `UPDATE sessions SET owner = NULL WHERE key = ANY($1) AND owner = $2`, keys, n.ID())
	if err != nil {
		n.log.Warn("sessions not given up yet", "sessions", len(keys), "error", err)
		n.claims.doubt(n.ID(), keys...)
	}
}

// takeDoubtful returns the doubtful sessions of a membership that nobody holds. Nobody claims them until the caller
// calls done.
func (cs *claims) takeDoubtful(id int64) (keys []string, done func()) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	taken := map[string]*claim{}
	for key, of := range cs.doubtful {
		if len(keys) == maxDoubtful {
			break
		}
		delete(cs.doubtful, key)
		if cs.byName[key] != nil || of != id {
			continue
		}
		c := &claim{holders: 1}
		c.busy.Lock()
		cs.byName[key], taken[key] = c, c
		keys = append(keys, key)
	}
	return keys, func() {
		for key, c := range taken {
			cs.release(c)
			cs.forget(key, c)
			c.busy.Unlock()
		}
	}
}
