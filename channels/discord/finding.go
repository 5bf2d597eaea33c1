package discord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"parley/channels"

	"github.com/bwmarrin/discordgo"
)

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
