package discord

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"parley/conversation"
	"parley/internal/clock"
)

// serversIn is how long the catching up waits to be told of the servers, since
// what Discord tells of them spares most of the looking.
const serversIn = 3 * time.Second

// ready begins a session of the gateway: whatever was said since the last one
// was not told.
func (in *intake) ready(ctx context.Context, e event) error {
	r := decode[ready](in, e)
	in.shards = e.shard.of
	if in.application == "" {
		in.me, in.application = r.User, r.Application.ID
		in.bot.Store(&r.User.ID)
		if err := in.recall(ctx); err != nil {
			return err
		}
		in.Log.Info("Discord knows the bot", "bot", in.me.Username, "bot_id", in.me.ID)
		in.help(func() { in.registerCommands(ctx, r.Application.ID) })
	} else {
		in.Log.Info("a new session with Discord; looking for what was missed", "places", len(in.seen))
	}
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
	in.help(func() {
		if clock.Sleep(ctx, serversIn) == nil {
			in.queue.push(event{kind: serversWaitOver})
		}
	})
	in.startFinding(ctx)
	return nil
}

// newestFirst are the known places, the one that was read last first: where people
// still talk, they wait for what they said.
func (in *intake) newestFirst() []string {
	return slices.SortedFunc(maps.Keys(in.seen), func(a, b string) int { return cmp.Compare(in.seen[b], in.seen[a]) })
}

// recall reads which places are known, and how far they were read.
func (in *intake) recall(ctx context.Context) error {
	err := conversation.Persist(ctx, in.Log, "read how far Discord's places were read", func() error {
		stored, err := in.Store.Cursors(ctx, in.cursors())
		for _, c := range stored {
			place := c.Name[len(in.cursors()):]
			in.seen[place] = number(c.Value)
			in.unvisited.add(place)
		}
		return err
	})
	return unlessDamaged(err)
}

// unlessDamaged leaves out what the store can't read or store because its file is
// damaged: the channel goes on without it.
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
	}
	in.startFinding(ctx)
}

// guildUpdated has the server without its channels.
func (in *intake) guildUpdated(g guild) {
	g.Channels, g.Threads = nil, nil
	in.world.addGuild(g, in.me.ID)
}

// guildGone is told when the bot was removed, or when the server has an outage.
func (in *intake) guildGone(ctx context.Context, g guild) {
	delete(in.catching.awaited, g.ID)
	if !g.Unavailable {
		in.world.removeGuild(g.ID)
	}
	in.startFinding(ctx)
}

// placeChanged keeps what was told of the newest message, which these events
// tell of no more.
func (in *intake) placeChanged(c channel) {
	p := newPlace(c)
	if old := in.world.places[c.ID]; old != nil {
		p.newest = old.newest
	}
	in.world.places[c.ID] = p
}
