// Package discord is the adapter for Discord: the gateway's events in, messages
// over REST out.
package discord

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"parley/channels"
	"parley/channels/access"
	"parley/channels/preview"
	"parley/cluster"
	"parley/conversation"
)

// name is the first segment of the adapter's keys.
const name = "discord"

// Deps holds the configuration of a Channel and what it depends on. All but the
// configuration, the store and the log may be left out.
type Deps struct {
	Config
	Store    Store
	Previews preview.Store // nil: which messages show answers is not stored
	Groups   Groups        // the servers of the bot
	Pairings access.Pairings
	Commands []channels.Command // what Discord's menu shows
	Node     *cluster.Node      // this process among those that serve the bot; nil: it is alone
	Health   HealthFunc
	SetAt    string          // where the token is set, "config.toml:12": for the operator whose token is rejected
	Probes   channels.Probes // how often Discord is asked again that refuses the bot
	Log      *slog.Logger
}

// Store gives access to what was accepted before.
type Store interface {
	// Cursors returns the cursors that were accepted, by the prefix of their names.
	Cursors(ctx context.Context, prefix string) ([]conversation.Cursor, error)

	// Edit stores the new text of an edited message and informs its session. It does
	// nothing for messages that were never accepted.
	Edit(ctx context.Context, of conversation.Account, sourceID, text string, at time.Time) error

	// Withdraw stores that a message was deleted, likewise.
	Withdraw(ctx context.Context, of conversation.Account, sourceID string) error
}

// HealthFunc is called with the channel's health: one of the states of package bots, and
// a detail for the operator. It must not block for long.
type HealthFunc func(state, detail string)

// Channel is one bot.
type Channel struct {
	Deps
	transport    *transport
	api          *api
	access       *access.Control
	previews     *preview.Board[address]
	threads      *threads
	renames      sync.WaitGroup // requests under way that rename threads
	deferrals    *deferrals
	health       *health
	unvisited    *unvisited
	admins       access.AdminMemory[inPlace]
	catchups     *channels.Outage          // logs failed lookups of places
	healthySince atomic.Pointer[time.Time] // when the last shard connected; nil: not all are connected
	firstLive    atomic.Uint64             // id of the first message or interaction that this process received live, and not by catching up, since the last other node was gone; 0: none yet
	bot          atomic.Pointer[string]    // the bot's id, once it is known
	openTime     time.Duration             // openTime, which tests shorten
	previewEvery time.Duration             // previewEvery, likewise
	silence      time.Duration             // silence, likewise

	identifyPause time.Duration // identifyPause, likewise

	shards    *nodeShards // the shards of this node; nil without a Node
	splitInto int         // the number of shards that the other nodes use; connect's goroutine alone touches it
}

// New makes the adapter; nothing is sent before Run. The error names the key
// that is wrong, and never the token.
func New(p Deps) (*Channel, error) {
	var err error
	if p.Config, err = p.Config.checked(); err != nil {
		return nil, fmt.Errorf("discord: %w", err)
	}
	p.Log = p.Log.With("channel", name)
	if p.Health == nil {
		p.Health = func(string, string) {}
	}
	c := &Channel{
		Deps: p, threads: newThreads(), deferrals: newDeferrals(), health: newHealth(p.Health, p.Log), unvisited: &unvisited{places: map[string]bool{}},
		openTime: openTime, previewEvery: previewEvery, silence: silence, identifyPause: identifyPause,
		shards: newNodeShards(), catchups: channels.NewOutage(p.Log),
	}
	if p.Node != nil {
		c.health.silent = true
		p.Node.OnChange(c.nodesChanged)
	}
	if c.access, err = access.New(p.Access, p.Allow, p.Account(), p.Pairings, p.Log); err != nil {
		return nil, fmt.Errorf("discord: %w", err)
	}
	if c.transport, err = newTransport(p.APIURL); err != nil {
		return nil, fmt.Errorf("discord: api_url: not an http or https address")
	}
	if c.api, err = newAPI(p.Token, c.transport); err != nil {
		return nil, fmt.Errorf("discord: %w", err)
	}
	c.previews = newPreviews(c, p.Previews)
	if id := p.botID(); id != "" {
		c.bot.Store(&id)
	}
	return c, nil
}

// Name is "discord".
func (c *Channel) Name() string { return name }

// ReleaseIdle closes connections and forgets rate limits that are over.
func (c *Channel) ReleaseIdle() { c.api.releaseIdle() }

// Split renders the markdown and cuts it into messages.
func (c *Channel) Split(d conversation.Delivery) []channels.Part {
	if to, err := parseAddress(d.Address); err == nil && to.Answer != nil && to.Answer.Private {
		return parts(d, 1) // a message more would be a follow-up, which has no nonce
	}
	return parts(d, c.FileOver)
}

// self is the bot's id, "" while it is not known.
func (c *Channel) self() string {
	if id := c.bot.Load(); id != nil {
		return *id
	}
	return ""
}

var (
	_ channels.Source    = (*Channel)(nil)
	_ channels.Sink      = (*Channel)(nil)
	_ channels.Previewer = (*Channel)(nil)
	_ channels.Typer     = (*Channel)(nil)
	_ channels.Titler    = (*Channel)(nil)
	_ channels.Fetcher   = (*Channel)(nil)

	_ channels.AdminChecker = (*Channel)(nil)
	_ channels.IdleReleaser = (*Channel)(nil)
)
