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

// maxLookups is how many places are looked up at the same time.
const maxLookups = 4

// catchUp holds back the events of places that must be looked up first, because messages
// may have been missed there or because Discord has not described them yet. The events of
// other places are handled meanwhile.
type catchUp struct {
	awaited map[string]bool // servers that Discord has not described yet
	held    map[string]*heldPlace
	waiting []string // held places whose turn has not come
	running int
}

// heldPlace is a place that waits for a lookup or is being looked up: a page of
// messages at a time, in turn with other places, until it has caught up with the
// live events.
type heldPlace struct {
	after   uint64             // id of the message after which others may have been missed; 0: only the place is looked up
	fetched int                // number of messages that were fetched so far
	members map[string]*member // members whose roles were asked for, by user ID
	again   bool               // a new session began while a page was fetched
	begun   bool
	guild   string  // ID of the server as an event has named it; "" = not known
	events  []event // wait until the place is looked up
}

func newCatchUp() catchUp {
	return catchUp{awaited: map[string]bool{}, held: map[string]*heldPlace{}}
}

// fetch holds back a place until the messages after a given one are fetched. It changes
// nothing if they are being fetched already.
func (c *catchUp) fetch(id string, after uint64) {
	h := c.look(id)
	h.again = h.begun
	if h.after == 0 {
		h.after = after
	}
}

// look holds back a place until Discord has described it.
func (c *catchUp) look(id string) *heldPlace {
	h := c.held[id]
	if h == nil {
		h = &heldPlace{members: map[string]*member{}}
		c.held[id] = h
		c.waiting = append(c.waiting, id)
	}
	return h
}

// requeue puts a place back into the queue after a lookup: last, or last among
// those with waiting events if it has some.
func (c *catchUp) requeue(id string) {
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

// holdEvent adds an event to a place that is held, which is then looked up
// earlier. It returns false for other places.
func (c *catchUp) holdEvent(id string, e event) bool {
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

// lookupResult is what a lookup has found.
type lookupResult struct {
	id       string
	place    *place    // nil: Discord does not describe the place
	messages []message // missed messages, oldest first: at most a page
	more     bool      // there are newer missed messages
}

// startLookups looks up the places whose turn it is.
func (in *intake) startLookups(ctx context.Context) {
	c := &in.catching
	for len(c.awaited) == 0 && len(c.waiting) > 0 && c.running < maxLookups {
		id := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.held[id].begun = true
		c.running++
		job := in.lookupOf(id)
		if job.isDone(in.seen[id]) {
			in.queue.push(event{kind: placeLookedAt, found: &lookupResult{id: id}})
			continue
		}
		in.goHelper(func() { in.queue.push(event{kind: placeLookedAt, found: job.find(ctx)}) })
	}
}

// lookupOf returns the lookup that a place needs.
func (in *intake) lookupOf(id string) lookup {
	h := in.catching.held[id]
	f := lookup{Channel: in.Channel, shards: in.shards, id: id, bot: in.me.ID, after: h.after, members: h.members}
	if p := in.world.places[id]; p != nil {
		known := *p
		f.known = &known
	}
	return f
}

// lookupDone handles the result of a lookup and, if nothing more is missing, the events
// that were held back. It does nothing once ctx has ended: the lookup may be
// incomplete, and the cursor must not move past messages that are still to be fetched.
func (in *intake) lookupDone(ctx context.Context, f *lookupResult) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	in.catching.running--
	p := in.placeFound(f)
	mine := in.isMine(p, in.shards)
	if mine {
		for i := range f.messages {
			if err := in.handleMessage(ctx, &f.messages[i], p); err != nil {
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
		in.catching.requeue(f.id)
		in.startLookups(ctx)
		return nil
	}
	return in.release(ctx, f.id, p)
}

// release handles the events of a place that were held back.
func (in *intake) release(ctx context.Context, id string, p *place) error {
	h := in.catching.held[id]
	if h.fetched > 0 {
		in.Log.Info("missed messages fetched", "channel_id", id, "messages", h.fetched)
	}
	delete(in.catching.held, id)
	in.startLookups(ctx)
	for _, e := range h.events {
		if err := in.handleInPlace(ctx, e, p); err != nil {
			return err
		}
	}
	return nil
}

// placeFound returns the place as it is known now. A place that can't be looked
// up counts as an ordinary channel.
func (in *intake) placeFound(f *lookupResult) *place {
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

// pageSize is how many messages are fetched at once, which is Discord's limit:
// https://discord.com/developers/docs/resources/message#get-channel-messages
const pageSize = 100

// lookup is one lookup of a place. It runs in a goroutine beside the intake.
type lookup struct {
	*Channel
	shards  int // how many the bot is split into
	id      string
	bot     string
	known   *place             // the place, if it is known; nil: Discord is asked for it
	after   uint64             // ID of the message after which others may have been missed; 0: none are fetched
	members map[string]*member // whose roles were asked for, by user; the running look alone touches it
}

// isDone reports whether the place is known and has no messages after the last one that was seen.
// Discord names the newest message in its description of the server.
func (l lookup) isDone(seen uint64) bool {
	return l.known != nil && (l.after == 0 || l.known.newest != 0 && l.known.newest <= seen)
}

// find asks until Discord answers or ctx ends. A place that the bot may not see
// has no messages.
func (l lookup) find(ctx context.Context) *lookupResult {
	found := &lookupResult{id: l.id, place: l.known}
	retry := l.catchups.Retry(l.id)
	for {
		err := l.ask(ctx, found)
		switch {
		case err == nil:
			retry.Succeeded("missed messages fetched")
			return found
		case isFinal(err) || ctx.Err() != nil:
			l.catchups.Left(l.id)
			l.Log.Debug("channel not readable", "channel_id", l.id, "error", err)
			return found
		}
		if retry.Wait(ctx, channels.Trouble{Level: slog.LevelWarn, Text: "missed messages not fetched, trying again"}, fmt.Errorf("channel %s: %w", l.id, err), refused(err).retryAfter) != nil {
			return found
		}
	}
}

func (l lookup) ask(ctx context.Context, found *lookupResult) error {
	if found.place == nil {
		var told channel
		endpoint := discordgo.EndpointChannel(l.id)
		if err := l.get(ctx, endpoint, endpoint, &told); err != nil {
			return err
		}
		found.place = newPlace(told)
	}
	if l.after == 0 || !l.isMine(found.place, l.shards) {
		return nil
	}
	missed, err := l.page(ctx)
	if err != nil {
		return err
	}
	for i := range missed {
		missed[i].GuildID = found.place.guild // which only the gateway tells
	}
	if err := l.addRoles(ctx, found.place, missed); err != nil {
		return err
	}
	found.messages = missed
	found.more = len(missed) >= pageSize && number(missed[len(missed)-1].ID) > l.after
	return nil
}

func (l lookup) get(ctx context.Context, url, limit string, into any) error {
	return l.api.call(ctx, request{method: http.MethodGet, url: url, limit: limit}, into)
}

// page returns the messages that follow another, the oldest first.
func (l lookup) page(ctx context.Context) ([]message, error) {
	endpoint := discordgo.EndpointChannelMessages(l.id)
	var list []message
	err := l.get(ctx, fmt.Sprintf("%s?after=%d&limit=%d", endpoint, l.after, pageSize), endpoint+"list", &list)
	slices.SortFunc(list, byID) // Discord lists the newest first, other servers the oldest
	return list, err
}

// addRoles asks for the roles of those who may be let in by a role: only live
// events name them.
func (l lookup) addRoles(ctx context.Context, p *place, list []message) error {
	if p.guild == "" || len(l.Allow) == 0 {
		return nil
	}
	for i := range list {
		m := &list[i]
		meant := p.isThread() || l.isFree(p) || m.repliesTo(l.bot) || strings.Contains(m.Content, l.bot)
		if !meant || m.author().Bot || l.access.AllowsIDs(m.Author.ID, p.guild, p.id, p.parent) {
			continue
		}
		var err error
		if m.Member, err = l.member(ctx, p.guild, m.Author.ID); err != nil {
			return err
		}
	}
	return nil
}

// member asks once for a member of a server, and returns nil for one that the bot
// may not see.
func (l lookup) member(ctx context.Context, guild, id string) (*member, error) {
	if who, asked := l.members[id]; asked {
		return who, nil
	}
	var who *member
	err := l.get(ctx, discordgo.EndpointGuildMember(guild, id), discordgo.EndpointGuildMember(guild, ""), &who)
	if err != nil && !isFinal(err) && !errors.Is(err, errAnswer) {
		return nil, err
	}
	if err != nil {
		l.Log.Debug("member roles not readable", "user", id, "error", err)
	}
	l.members[id] = who
	return who, nil
}
