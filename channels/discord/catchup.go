package discord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"

	"parley/channels"
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

// pageSize is how many messages are fetched at once, which is all that Discord
// gives: https://discord.com/developers/docs/resources/message#get-channel-messages
const pageSize = 100

// finding is one look at a place. It runs beside the intake.
type finding struct {
	*Channel
	id      string
	bot     string
	known   *place             // nil: it is asked for
	after   uint64             // message behind which others may have been missed; 0: none are fetched
	members map[string]*member // whose roles were asked for, by user; the running look alone touches it
}

// isDone tells that the place is known, and that nothing was said in it behind
// the last message that was seen: Discord tells the newest one with the server.
func (f finding) isDone(seen uint64) bool {
	return f.known != nil && (f.after == 0 || f.known.newest != 0 && f.known.newest <= seen)
}

// find asks until Discord answers or ctx ends. A place that Discord does not
// show has no messages.
func (f finding) find(ctx context.Context) *findings {
	found := &findings{id: f.id, place: f.known}
	retry := channels.NewRetry(f.Log.With("channel_id", f.id))
	for {
		err := f.ask(ctx, found)
		switch {
		case err == nil:
			retry.Succeeded("Discord tells of the place again")
			return found
		case isFinal(err) || ctx.Err() != nil:
			f.Log.Debug("a place can't be looked at", "channel_id", f.id, "error", err)
			return found
		}
		if retry.Wait(ctx, channels.Trouble{Level: slog.LevelWarn, Text: "can't fetch what was missed, trying again; the place waits for it"}, err, refused(err).retryAfter) != nil {
			return found
		}
	}
}

func (f finding) ask(ctx context.Context, found *findings) error {
	if found.place == nil {
		var told channel
		endpoint := discordgo.EndpointChannel(f.id)
		if err := f.get(ctx, endpoint, endpoint, &told); err != nil {
			return err
		}
		found.place = newPlace(told)
	}
	if f.after == 0 {
		return nil
	}
	missed, err := f.page(ctx)
	if err != nil {
		return err
	}
	for i := range missed {
		missed[i].GuildID = found.place.guild // which only the gateway tells
	}
	if err := f.addRoles(ctx, found.place, missed); err != nil {
		return err
	}
	found.messages = missed
	found.more = len(missed) >= pageSize && number(missed[len(missed)-1].ID) > f.after
	return nil
}

func (f finding) get(ctx context.Context, url, limit string, into any) error {
	return f.api.call(ctx, request{method: http.MethodGet, url: url, limit: limit}, into)
}

// page gives what was said next behind a message, oldest first.
func (f finding) page(ctx context.Context) ([]message, error) {
	endpoint := discordgo.EndpointChannelMessages(f.id)
	var list []message
	err := f.get(ctx, fmt.Sprintf("%s?after=%d&limit=%d", endpoint, f.after, pageSize), endpoint+"list", &list)
	slices.SortFunc(list, byID) // Discord lists the newest first, other servers the oldest
	return list, err
}

// addRoles asks for the roles of those who may be let in by one, which only the
// gateway tells with a message.
func (f finding) addRoles(ctx context.Context, p *place, list []message) error {
	if p.guild == "" || len(f.Allow) == 0 {
		return nil
	}
	for i := range list {
		m := &list[i]
		meant := p.isThread() || f.isFree(p) || m.repliesTo(f.bot) || strings.Contains(m.Content, f.bot)
		if !meant || m.author().Bot || f.access.AllowsIDs(m.Author.ID, p.guild, p.id, p.parent) {
			continue
		}
		var err error
		if m.Member, err = f.member(ctx, p.guild, m.Author.ID); err != nil {
			return err
		}
	}
	return nil
}

// member asks for somebody in a server, once; nil is one that Discord does not
// show.
func (f finding) member(ctx context.Context, guild, id string) (*member, error) {
	if who, asked := f.members[id]; asked {
		return who, nil
	}
	var who *member
	err := f.get(ctx, discordgo.EndpointGuildMember(guild, id), discordgo.EndpointGuildMember(guild, ""), &who)
	if err != nil && !isFinal(err) && !errors.Is(err, errAnswer) {
		return nil, err
	}
	if err != nil {
		f.Log.Debug("the roles of a member can't be seen", "user", id, "error", err)
	}
	f.members[id] = who
	return who, nil
}
