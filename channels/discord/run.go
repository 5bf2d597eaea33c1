package discord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
	"golang.org/x/sync/errgroup"

	"parley/channels"
	"parley/conversation/bots"
	"parley/internal/clock"
)

// Errors that the operator or Discord has to mend. The bot is tried again now and then.
var (
	errRejected  = errors.New("discord: Discord rejected the bot token") // tokenError says more
	errNoContent = errors.New("discord: the bot may not read messages: switch on Message Content Intent in the Developer Portal " +
		"(https://discord.com/developers/applications), on the application's page Bot under Privileged Gateway Intents")
	errShard = errors.New("discord: Discord refuses the shard: check shard_id and shard_count in [discord], or leave both out")
)

// errReshard is the error of a session for which Discord wants more shards.
var errReshard = errors.New("discord: Discord wants the bot split into more shards; raise shards or shard_count in [discord], or leave them out")

// Run connects and handles events until ctx ends.
func (c *Channel) Run(ctx context.Context, accept channels.AcceptFunc) error {
	if c.access.Nobody() {
		c.Log.Warn("access list empty: write to the bot and copy the id from this log into allow")
	}
	c.health.connection(bots.Connecting, "")
	defer c.previews.Open()()
	in := c.newIntake(accept)
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error { return in.run(running) })
	g.Go(func() error { return c.connect(running, in.queue) })
	g.Go(func() error { return c.guardToken(running) })
	g.Go(func() error { return c.access.TellStrangers(running) })
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// shard is a share of the bot's servers: the one with the number id, from 0, of a total of of.
type shard struct{ id, of int }

// plan is how the bot connects.
type plan struct {
	shards   []shard
	together int           // shards that may identify at once, every identifyPause
	wait     time.Duration // time until a session may begin
}

// connect keeps every shard of this process connected until ctx ends. While
// Discord refuses the bot for good, it tries again less and less often.
func (c *Channel) connect(ctx context.Context, events *queue) error {
	waits := c.Probes.BackOff()
	for {
		p, err := c.plan(ctx)
		if err == nil {
			err = clock.Sleep(ctx, p.wait)
		}
		if err == nil {
			err = c.serve(ctx, p, events)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errMoreShards) {
			c.Log.Info("connecting with as many shards as the other nodes", "shards", c.splitInto)
			continue
		}
		if errors.Is(err, errReshard) && c.ShardCount == 0 && c.Shards == 0 {
			c.Log.Info("connecting with more shards", "reason", err)
			continue
		}
		c.healthySince.Store(nil)
		if c.health.refused(c.rejection(err)) {
			waits.Reset()
		}
		if clock.Sleep(ctx, waits.NextBackOff()) != nil {
			return nil
		}
	}
}

func (c *Channel) serve(ctx context.Context, p plan, events *queue) error {
	links := c.newLinks(p, events)
	if c.Node != nil {
		return c.spread(ctx, links)
	}
	g, running := errgroup.WithContext(ctx)
	for _, l := range links {
		g.Go(func() error { return l.run(running) })
	}
	return g.Wait()
}

// newLinks returns the shards of a plan.
func (c *Channel) newLinks(p plan, events *queue) (links []*link) {
	gates := make([]*identifyGate, p.together)
	for i := range gates {
		gates[i] = c.newIdentifyGate(i)
	}
	status := &status{channel: c, up: map[int]bool{}}
	if c.Node == nil {
		status.shards = len(p.shards)
	}
	for _, s := range p.shards {
		l := &link{Channel: c, shard: s, events: events, gate: gates[s.id%p.together], status: status, log: c.Log}
		if s.of > 1 {
			l.log = c.Log.With("shard", s.id)
		}
		links = append(links, l)
	}
	return links
}

// plan asks Discord how to connect, until it answers.
func (c *Channel) plan(ctx context.Context) (plan, error) {
	retry := channels.NewRetry(c.Log)
	for {
		var told discordgo.GatewayBotResponse
		endpoint := discordgo.EndpointGatewayBot
		err := c.api.call(ctx, request{method: http.MethodGet, url: endpoint, limit: endpoint}, &told)
		if err == nil {
			retry.Succeeded("Discord answers")
			c.health.setREST("")
			return c.planOf(told), nil
		}
		if isTokenRefusal(err) {
			return plan{}, errRejected
		}
		if !retry.IsFailing() {
			c.health.connection(bots.Interrupted, err.Error())
		}
		if err := retry.Wait(ctx, channels.Trouble{Level: slog.LevelWarn, Text: "Discord can't be reached, trying again"}, err, refused(err).retryAfter); err != nil {
			return plan{}, err
		}
	}
}

func (c *Channel) planOf(told discordgo.GatewayBotResponse) plan {
	p := plan{together: max(1, told.SessionStartLimit.MaxConcurrency)}
	if limit := told.SessionStartLimit; limit.Total > 0 && limit.Remaining == 0 {
		p.wait = time.Duration(limit.ResetAfter) * time.Millisecond
		c.Log.Warn("Discord session limit reached, waiting", "wait", p.wait)
	}
	if c.ShardCount > 0 {
		p.shards = []shard{{c.ShardID, c.ShardCount}}
		return p
	}
	count := max(cmp.Or(c.Shards, told.Shards, 1), c.splitInto)
	for id := range count {
		p.shards = append(p.shards, shard{id, count})
	}
	return p
}

// status combines the states of the shards.
type status struct {
	channel *Channel
	mu      sync.Mutex
	shards  int          // number of the shards that this process serves
	up      map[int]bool // whether a shard is connected, by its number, once that is known
}

// begin adds a shard of this node.
func (s *status) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards++
	s.channel.healthySince.Store(nil)
	s.channel.health.setSilent(false)
}

// end removes a shard that this node no longer has.
func (s *status) end(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards--
	delete(s.up, id)
	if s.shards == 0 {
		s.channel.healthySince.Store(nil)
		s.channel.health.setSilent(true)
		return
	}
	s.combine(true, "")
}

// set sets the state of a shard, and reports the health when it changes: the bot
// works when all shards do.
func (s *status) set(id int, up bool, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, known := s.up[id]; known && was == up {
		return
	}
	s.up[id] = up
	s.combine(up, detail)
}

// combine reports the health of all shards after one of them has changed. The caller holds the lock.
func (s *status) combine(up bool, detail string) {
	working := 0
	for _, up := range s.up {
		if up {
			working++
		}
	}
	if working == s.shards {
		now := time.Now()
		s.channel.healthySince.Store(&now)
		s.channel.health.connection(bots.Serving, s.detail())
		return
	}
	s.channel.healthySince.Store(nil)
	if !up {
		s.channel.health.connection(bots.Interrupted, detail)
	}
}

// detail returns the detail for the health of a bot that works.
func (s *status) detail() string {
	if s.shards == 1 {
		return ""
	}
	return fmt.Sprintf("%d shards", s.shards)
}
