package discord

import (
	"context"
	"slices"
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

// hold is a place that is being looked at, or will be: a page of messages at a
// time, in turn with other places, until it is level with what is told live.
type hold struct {
	after   uint64             // message behind which others may have been missed; 0: only what the place is is asked
	fetched int                // messages so far
	members map[string]*member // whose roles were asked for, by user
	again   bool               // a new session began while a page was fetched
	begun   bool
	guild   string  // as an event told it
	events  []event // that wait for it
}

func newCatching() catching {
	return catching{awaited: map[string]bool{}, held: map[string]*hold{}}
}

// fetch holds a place until what was missed behind a message is there. A place
// that is held for that already goes on where it is.
func (c *catching) fetch(id string, after uint64) {
	h := c.look(id)
	h.again = h.begun
	if h.after == 0 {
		h.after = after
	}
}

// look holds a place until it is known what it is.
func (c *catching) look(id string) *hold {
	h := c.held[id]
	if h == nil {
		h = &hold{members: map[string]*member{}}
		c.held[id] = h
		c.waiting = append(c.waiting, id)
	}
	return h
}

// goOn lets a place that was looked at wait to be looked at again: behind the
// others, but if events wait for it, only behind those where they do too.
func (c *catching) goOn(id string) {
	h := c.held[id]
	h.again, h.begun = false, false
	at := -1
	if len(h.events) > 0 {
		at = slices.IndexFunc(c.waiting, func(other string) bool { return len(c.held[other].events) == 0 })
	}
	if at < 0 {
		at = len(c.waiting)
	}
	c.waiting = slices.Insert(c.waiting, at, id)
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
	messages []message // that were missed, oldest first: at most a page
	more     bool      // others were said behind them
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
	h := in.catching.held[id]
	f := finding{Channel: in.Channel, id: id, bot: in.me.ID, after: h.after, members: h.members}
	if p := in.world.places[id]; p != nil {
		known := *p
		f.known = &known
	}
	return f
}

// lookedAt takes what was found out, and when that is all, the events that
// waited for it. A look that the end cut short found out nothing: the mark must
// not move past what is still to be fetched.
func (in *intake) lookedAt(ctx context.Context, f *findings) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	in.catching.running--
	p := in.placeFound(f)
	mine := in.ShardCount == 0 || p.shard(in.shards) == in.ShardID
	if mine {
		for i := range f.messages {
			if err := in.said(ctx, &f.messages[i], p); err != nil {
				return err
			}
		}
	}
	h := in.catching.held[f.id]
	if n := len(f.messages); n > 0 {
		h.after = max(h.after, number(f.messages[n-1].ID))
		h.fetched += n
	}
	if h.again || f.more && mine {
		in.catching.goOn(f.id)
		in.startFinding(ctx)
		return nil
	}
	return in.release(ctx, f.id, p)
}

// release lets a place go on with what happens there.
func (in *intake) release(ctx context.Context, id string, p *place) error {
	h := in.catching.held[id]
	if h.fetched > 0 {
		in.Log.Info("fetched what was said meanwhile", "channel_id", id, "messages", h.fetched)
	}
	delete(in.catching.held, id)
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
