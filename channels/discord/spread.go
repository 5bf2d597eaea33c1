package discord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"parley/cluster"
	"parley/internal/clock"
)

// Where several nodes share a database, each shard is a role of the cluster. A node takes free shards up to its part of
// them, and gives back what is beyond it, so that the nodes have about the same number. After a takeover the shard
// begins a new session, and what was missed is looked up. Whatever arrives twice meanwhile is stored once.

const (
	balanceEvery = time.Second
	watchEvery   = time.Minute // how often a node without shards asks whether Discord answers
)

// errMoreShards ends the work on a plan because other nodes use one with more shards.
var errMoreShards = errors.New("discord: the other nodes have split the bot into more shards")

// nodeShards are the shards whose roles this node holds.
type nodeShards struct {
	mu      sync.Mutex
	ends    map[int]context.CancelFunc // by the number of the shard: ends its connection
	attends bool                       // this node counts among the nodes that share the shards
	nodes   map[int64]bool             // IDs of the nodes that were alive when nodesChanged was last called
	wake    chan struct{}              // signals that the shards are to be balanced again
}

func newNodeShards() *nodeShards {
	return &nodeShards{ends: map[int]context.CancelFunc{}, nodes: map[int64]bool{}, wake: make(chan struct{}, 1)}
}

func (s *nodeShards) has(shard int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[shard] != nil
}

// list returns the numbers of the shards, in order.
func (s *nodeShards) list() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.ends))
}

func (s *nodeShards) add(shard int, end context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[shard] = end
}

func (s *nodeShards) remove(shard int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, shard)
}

// end gives a shard back. The node keeps its role until the connection is closed.
func (s *nodeShards) end(shard int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.ends[shard]; end != nil {
		end()
	}
}

func (s *nodeShards) setAttends(attends bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attends = attends
}

func (s *nodeShards) isAttending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attends
}

func (s *nodeShards) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// nodesChanged is called when nodes join, leave or die. A node that is gone may have posted what this
// one is to send now.
func (c *Channel) nodesChanged() {
	live := map[int64]bool{}
	for _, m := range c.Node.Live() {
		live[m.ID] = true
	}
	s := c.shards
	s.mu.Lock()
	for id := range s.nodes {
		if !live[id] {
			c.firstLive.Store(0)
		}
	}
	s.nodes = live
	s.mu.Unlock()
	s.changed()
}

// isMine reports whether this process receives the events of a place, if the bot is split into this number of shards.
func (c *Channel) isMine(p *place, shards int) bool {
	switch {
	case c.Node != nil:
		return c.shards.has(p.shard(shards))
	case c.ShardCount > 0:
		return p.shard(shards) == c.ShardID
	}
	return true
}

// rolePrefix is the beginning of the names of all roles of the bot.
func (c *Channel) rolePrefix() string { return c.Account().String() + ":" }

// shardRole returns the name of a shard's role, such as "discord:42:shard:3/16".
func (c *Channel) shardRole(s shard) string {
	return fmt.Sprintf("%sshard:%d/%d", c.rolePrefix(), s.id, s.of)
}

// spread keeps this node's part of the shards connected until ctx ends, or a shard ends with an error.
func (c *Channel) spread(ctx context.Context, links []*link) error {
	running, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	failed := make(chan error, len(links))
	work.Go(func() { c.attend(running) })
	work.Go(func() { c.watchREST(running) })
	start := func(l *link, role *cluster.Role) {
		shard, end := context.WithCancel(running)
		c.shards.add(l.shard.id, end)
		l.status.begin()
		work.Go(func() {
			defer c.shards.changed()
			defer c.shards.remove(l.shard.id)
			defer l.status.end(l.shard.id)
			defer end()
			if err := role.Do(shard, l.run); err != nil && !errors.Is(err, cluster.ErrLost) && shard.Err() == nil {
				select {
				case failed <- err:
				default: // the first ones suffice
				}
			}
		})
	}
	for failing := false; ; {
		err := c.balance(running, links, start)
		if errors.Is(err, errMoreShards) {
			return err
		}
		if err != nil && !failing && ctx.Err() == nil {
			c.Log.Warn("shards not shared among the nodes", "error", err)
		}
		failing = err != nil
		timer := time.NewTimer(balanceEvery)
		select {
		case err := <-failed:
			timer.Stop()
			return err
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-c.shards.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// balance takes shards that no node has, up to this node's part, or gives back those beyond it.
func (c *Channel) balance(ctx context.Context, links []*link, start func(*link, *cluster.Role)) error {
	if !c.Node.Valid() {
		return nil // the shards end by themselves
	}
	holders, err := c.Node.Holders(ctx, c.rolePrefix())
	if err != nil {
		return err
	}
	if more := c.mostShards(holders); more > len(links) && c.ShardCount == 0 {
		c.splitInto = more
		return errMoreShards
	}
	part := 0
	if nodes := c.attending(holders); nodes > 0 && c.shards.isAttending() {
		part = (len(links) + nodes - 1) / nodes
	}
	mine := c.shards.list()
	for _, shard := range mine[min(part, len(mine)):] {
		c.shards.end(shard)
	}
	first := int(c.Node.ID()) * part // so that the nodes seldom want the same one
	for i := range links {
		l := links[(first+i)%len(links)]
		if len(mine) >= part {
			break
		}
		name := c.shardRole(l.shard)
		if _, held := holders[name]; held || c.shards.has(l.shard.id) {
			continue
		}
		role, err := c.Node.Take(ctx, name)
		if err != nil {
			return err
		}
		if role != nil {
			mine = append(mine, l.shard.id)
			start(l, role)
		}
	}
	return nil
}

// mostShards returns the largest number of shards into which a node has split the bot, 0 if none has any.
func (c *Channel) mostShards(holders map[string]int64) (most int) {
	for name := range holders {
		shard, is := strings.CutPrefix(name, c.rolePrefix()+"shard:")
		_, count, _ := strings.Cut(shard, "/")
		if n, err := strconv.Atoi(count); is && err == nil {
			most = max(most, n)
		}
	}
	return most
}

const attendance = "node:" // in the names of the roles of attend

// attending returns how many nodes share the shards.
func (c *Channel) attending(holders map[string]int64) (nodes int) {
	for name := range holders {
		if strings.HasPrefix(name, c.rolePrefix()+attendance) {
			nodes++
		}
	}
	return nodes
}

// attend makes this node one of those that share the shards, until ctx ends: it has one of the numbered roles. A node
// that drains gives it up.
func (c *Channel) attend(ctx context.Context) {
	clock.Every(ctx, balanceEvery, func() {
		if handsOver, _ := c.Node.HandsOver(); handsOver {
			return
		}
		holders, err := c.Node.Holders(ctx, c.rolePrefix()+attendance)
		if err != nil {
			return // balance logs why
		}
		for number := range len(holders) + 1 {
			role, err := c.Node.Take(ctx, fmt.Sprint(c.rolePrefix(), attendance, number))
			if err != nil {
				return
			}
			if role == nil {
				continue
			}
			_ = role.Do(ctx, func(ctx context.Context) error {
				c.shards.setAttends(true)
				defer c.shards.setAttends(false)
				c.shards.changed()
				<-ctx.Done()
				return ctx.Err()
			})
			return
		}
	})
}

// watchREST requests the bot's user from time to time while this node has no shards, until ctx ends. This is how
// such a node tells an outage of Discord from a message that Discord refuses.
func (c *Channel) watchREST(ctx context.Context) {
	for clock.Sleep(ctx, watchEvery) == nil {
		if len(c.shards.list()) > 0 {
			continue
		}
		err := c.api.call(ctx, request{method: http.MethodGet, url: discordgo.EndpointUser("@me"), limit: discordgo.EndpointUser("@me")}, nil)
		switch {
		case err != nil:
			c.healthySince.Store(nil)
			c.Log.Log(ctx, slog.LevelDebug, "Discord does not answer", "error", err)
		case c.healthySince.Load() == nil:
			now := time.Now()
			c.healthySince.Store(&now)
		}
	}
}
