package discord

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"
)

const (
	pageSize    = 100  // https://discord.com/developers/docs/resources/message#get-channel-messages
	maxMissed   = 1000 // messages of a place that are fetched; what is newer waits to be said again
	maxStranger = 50   // authors whose roles are asked for
)

// finding is the look at one place. It runs beside the intake.
type finding struct {
	*Channel
	id    string
	bot   string
	known *place // nil: it is asked for
	after uint64 // message behind which others may have been missed; 0: none are fetched
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
	retry := newRetry(f.Log.With("channel_id", f.id))
	for {
		err := f.ask(ctx, found)
		switch {
		case err == nil:
			retry.over("Discord tells of the place again")
			return found
		case isFinal(err) || ctx.Err() != nil:
			f.Log.Debug("a place can't be looked at", "channel_id", f.id, "error", err)
			return found
		}
		if retry.after(ctx, "can't fetch what was missed, trying again; the place waits for it", err) != nil {
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
	missed, err := f.list(ctx)
	if err != nil {
		return err
	}
	for i := range missed {
		missed[i].GuildID = found.place.guild // which only the gateway tells
	}
	if len(missed) > 0 {
		f.Log.Info("fetched what was said meanwhile", "channel_id", f.id, "messages", len(missed))
	}
	found.messages = missed
	f.addRoles(ctx, found)
	return nil
}

func (f finding) get(ctx context.Context, url, limit string, into any) error {
	return f.api.call(ctx, request{method: http.MethodGet, url: url, limit: limit}, into)
}

// list gives what was said behind a message, oldest first.
func (f finding) list(ctx context.Context) ([]message, error) {
	endpoint := discordgo.EndpointChannelMessages(f.id)
	var all []message
	for after := f.after; len(all) < maxMissed; after = number(all[len(all)-1].ID) {
		var page []message
		if err := f.get(ctx, fmt.Sprintf("%s?after=%d&limit=%d", endpoint, after, pageSize), endpoint+"list", &page); err != nil {
			return nil, err
		}
		slices.Reverse(page)
		all = append(all, page...)
		if len(page) < pageSize {
			return all, nil
		}
	}
	f.Log.Warn("so much was said meanwhile that not all of it is looked at", "channel_id", f.id, "limit", maxMissed)
	return all, nil
}

// addRoles asks for the roles of those who may be let in by one, which only the
// gateway tells with a message.
func (f finding) addRoles(ctx context.Context, found *findings) {
	p := found.place
	if p.guild == "" || len(f.Allow) == 0 {
		return
	}
	members := map[string]*member{}
	for i := range found.messages {
		m := &found.messages[i]
		meant := p.isThread() || f.isFree(p) || m.repliesTo(f.bot) || strings.Contains(m.Content, f.bot)
		if !meant || m.author().Bot || f.access.Allows(m.Author.ID, m.Author.handle(), p.guild, p.id, p.parent) {
			continue
		}
		who, asked := members[m.Author.ID]
		if !asked && len(members) < maxStranger {
			endpoint := discordgo.EndpointGuildMember(p.guild, m.Author.ID)
			if err := f.get(ctx, endpoint, discordgo.EndpointGuildMember(p.guild, ""), &who); err != nil {
				f.Log.Debug("the roles of a member can't be seen", "user", m.Author.ID, "error", err)
			}
			members[m.Author.ID] = who
		}
		m.Member = who
	}
}
