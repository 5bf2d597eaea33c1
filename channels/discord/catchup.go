package discord

import (
	"context"
	"slices"
	"time"
)

// maxFinding is how many places are looked at together.
const maxFinding = 4

// catching holds back the events of places that must be looked at first: where
// messages may have been missed, and those that Discord did not tell of. Other
// places go on meanwhile.
type catching struct {
	awaited map[string]bool // servers that are still to be told of
	held    map[string]*hold
	waiting []string // held places whose turn has not come
	running int
}

// hold is a place that is being looked at, or will be.
type hold struct {
	fetch  bool // what was missed; else only what the place is
	again  bool // a new session began while messages were fetched
	begun  bool
	guild  string  // as an event told it
	events []event // that wait for it
}

func newCatching() catching {
	return catching{awaited: map[string]bool{}, held: map[string]*hold{}}
}

// fetch holds a place until what was missed is there.
func (c *catching) fetch(id string) {
	h := c.look(id)
	h.again = h.begun
	h.fetch = true
}

// look holds a place until it is known what it is.
func (c *catching) look(id string) *hold {
	h := c.held[id]
	if h == nil {
		h = &hold{}
		c.held[id] = h
		c.waiting = append(c.waiting, id)
	}
	return h
}

// keep takes an event of a place that is held, which then comes first.
func (c *catching) keep(id string, e event) bool {
	h := c.held[id]
	if h == nil {
		return false
	}
	h.events = append(h.events, e)
	if i := slices.Index(c.waiting, id); i > 0 {
		c.waiting = slices.Insert(slices.Delete(c.waiting, i, i+1), 0, id)
	}
	return true
}

// findings is what was found out about a place.
type findings struct {
	id       string
	place    *place    // nil: Discord does not tell
	messages []message // that were missed, oldest first
}

// startFinding looks at the places whose turn has come.
func (in *intake) startFinding(ctx context.Context) {
	c := &in.catching
	for len(c.awaited) == 0 && len(c.waiting) > 0 && c.running < maxFinding {
		id := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.held[id].begun = true
		c.running++
		job := in.finding(id)
		if job.isDone(in.seen[id]) {
			in.queue.push(event{kind: placeLookedAt, found: &findings{id: id}})
			continue
		}
		in.help(func() { in.queue.push(event{kind: placeLookedAt, found: job.find(ctx)}) })
	}
}

// finding is what must be found out about a place.
func (in *intake) finding(id string) finding {
	f := finding{Channel: in.Channel, id: id, bot: in.me.ID}
	if p := in.world.places[id]; p != nil {
		known := *p
		f.known = &known
	}
	if in.catching.held[id].fetch {
		f.after = max(in.seen[id], firstAt(time.Now().Add(-in.CatchUp)))
	}
	return f
}

// lookedAt takes what was found out, and then the events that waited for it.
func (in *intake) lookedAt(ctx context.Context, f *findings) error {
	in.catching.running--
	p := in.placeFound(f)
	if in.ShardCount == 0 || p.shard(in.shards) == in.ShardID {
		for i := range f.messages {
			if err := in.said(ctx, &f.messages[i], p); err != nil {
				return err
			}
		}
	}
	h := in.catching.held[f.id]
	if h.again {
		h.again, h.begun = false, false
		in.catching.waiting = append(in.catching.waiting, f.id)
		in.startFinding(ctx)
		return nil
	}
	delete(in.catching.held, f.id)
	in.startFinding(ctx)
	for _, e := range h.events {
		if err := in.happened(ctx, e, p); err != nil {
			return err
		}
	}
	return nil
}

// placeFound is the place as it is known now. What can't be looked at is taken
// for an ordinary channel.
func (in *intake) placeFound(f *findings) *place {
	if p := in.world.places[f.id]; p != nil {
		return p
	}
	p := f.place
	if p == nil {
		p = &place{id: f.id, guild: in.catching.held[f.id].guild}
	}
	in.world.places[f.id] = p
	return p
}
