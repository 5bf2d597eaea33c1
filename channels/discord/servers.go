package discord

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/retry"
	"parley/internal/clock"
)

// serversIn is how long the catch-up waits for Discord's description of the
// servers, which saves most of the lookups.
const serversIn = 3 * time.Second

// ready handles the start of a session with Discord's gateway. Discord does not send the messages
// that were written since the previous session.
func (in *intake) ready(ctx context.Context, e event) error {
	r := decode[ready](in, e)
	in.shards = e.shard.of
	if in.application == "" {
		in.me, in.application = r.User, r.Application.ID
		in.bot.Store(&r.User.ID)
		if err := in.recall(ctx); err != nil {
			return err
		}
		in.Log.Info("Discord bot identified", "bot", in.me.Username, "bot_id", in.me.ID)
		in.goHelper(func() { in.registerCommands(ctx, r.Application.ID) })
	} else {
		if in.Node != nil { // another node may have had the shard until now
			if err := in.recall(ctx); err != nil {
				return err
			}
		}
		in.Log.Info("Discord session started, looking for missed messages", "places", len(in.seen))
	}
	in.leftMeanwhile(ctx, r.Guilds, e.shard.id)
	if in.CatchUp == 0 {
		return nil
	}
	oldest := firstAt(time.Now().Add(-in.CatchUp))
	for _, id := range in.newestFirst() {
		p := in.world.places[id]
		if p != nil && p.shard(in.shards) != e.shard.id {
			continue
		}
		if p != nil {
			p.newest = 0 // told again with the server
		}
		in.catching.fetch(id, max(in.seen[id], oldest))
	}
	for _, g := range r.Guilds {
		in.catching.awaited[g.ID] = true
	}
	in.goHelper(func() {
		if clock.Sleep(ctx, serversIn) == nil {
			in.queue.push(event{kind: serversWaitOver})
		}
	})
	in.startLookups(ctx)
	return nil
}

// newestFirst returns the known places, most recently read first: people there are most likely
// waiting.
func (in *intake) newestFirst() []string {
	return slices.SortedFunc(maps.Keys(in.seen), func(a, b string) int { return cmp.Compare(in.seen[b], in.seen[a]) })
}

// recall reads which places are known, and how far they were read.
func (in *intake) recall(ctx context.Context) error {
	err := retry.Persist(ctx, in.Log, "read how far Discord's places were read", func() error {
		stored, err := in.Store.Cursors(ctx, in.cursors())
		for _, c := range stored {
			place := c.Name[len(in.cursors()):]
			if in.seen[place] == 0 {
				in.unvisited.add(place)
			}
			in.seen[place] = max(in.seen[place], number(c.Value))
		}
		return err
	})
	return unlessDamaged(err)
}

// unlessDamaged returns nil for an error of a damaged database: the channel continues
// without the data on the damaged page.
func unlessDamaged(err error) error {
	if conversation.IsDamaged(err) {
		return nil
	}
	return err
}

func (in *intake) guildCreated(ctx context.Context, g guild) {
	delete(in.catching.awaited, g.ID)
	if !g.Unavailable {
		in.world.addGuild(g, in.me.ID)
		in.joined(ctx, g)
	}
	in.startLookups(ctx)
}

// guildUpdated handles a change of a server. The event has no channels.
func (in *intake) guildUpdated(g guild) {
	g.Channels, g.Threads = nil, nil
	in.world.addGuild(g, in.me.ID)
}

// guildGone handles the removal of the bot from a server, or an outage of the
// server.
func (in *intake) guildGone(ctx context.Context, g guild) {
	delete(in.catching.awaited, g.ID)
	if !g.Unavailable {
		in.left(ctx, g.ID)
		in.world.removeGuild(g.ID)
	}
	in.startLookups(ctx)
}

// placeChanged handles a change of a channel. It keeps the newest message, which
// the event does not name.
func (in *intake) placeChanged(c channel) {
	p := newPlace(c)
	if old := in.world.places[c.ID]; old != nil {
		p.newest = old.newest
	}
	in.world.places[c.ID] = p
}
