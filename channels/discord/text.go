package discord

import (
	"regexp"
	"strings"

	"parley/channels"
)

// text returns the text of a message for the assistant: without the mention of the bot, with
// the names of mentioned people and places, and below the text that it replies to.
func (in *intake) text(m *message, p *place) string {
	said := in.readable(m, p)
	if m.Referenced == nil || m.Type != typeReply || isCommand(said) && !m.isSecondHand() {
		return said
	}
	return in.quote(m.Referenced, p) + said
}

// withoutQuote returns a text as the author wrote it.
func (in *intake) withoutQuote(m *message, p *place, text string) string {
	if m.Referenced == nil {
		return text
	}
	return strings.TrimPrefix(text, in.quote(m.Referenced, p))
}

// readable returns the text of a message without the text that it replies to. If the message
// has only the name of the bot, the name stays, so that the text is not empty.
func (in *intake) readable(m *message, p *place) string {
	content := in.withoutName(m.Content, p)
	if strings.TrimSpace(content) == "" && len(m.Attachments) == 0 {
		content = m.Content
	}
	content = in.withNames(content, m, p)
	for _, s := range m.Snapshots {
		content = joinLines(content, channels.Forwarded("")+joinLines(in.withNames(s.Message.Content, &s.Message, p), in.contents(&s.Message, p)))
	}
	content = joinLines(content, in.contents(m, p))
	if strings.TrimSpace(content) == "" && len(m.Attachments) == 0 && m.isWritten() {
		return "[a message that can't be read]"
	}
	return content
}

// quote returns a message as it stands above a reply to it.
func (in *intake) quote(m *message, p *place) string {
	return channels.InReplyTo(m.author().shown(m.Member), in.readable(m, p))
}

func joinLines(text, more string) string {
	switch {
	case strings.TrimSpace(text) == "":
		return more
	case more == "":
		return text
	}
	return text + "\n" + more
}

// withoutName removes the bot's name from both ends of a text, where it only addresses
// the bot.
func (in *intake) withoutName(text string, p *place) string {
	names := []string{"<@" + in.me.ID + ">", "<@!" + in.me.ID + ">"}
	if role := in.world.guild(p.guild).botRole; role != "" {
		names = append(names, "<@&"+role+">")
	}
	text = strings.TrimSpace(text)
	for _, name := range names {
		if rest, ok := strings.CutPrefix(text, name); ok {
			text = strings.TrimLeft(rest, " \n\t,:;-–—")
		}
		if rest, ok := strings.CutSuffix(text, name); ok {
			text = strings.TrimRight(rest, " \n\t,")
		}
	}
	return text
}

// mark is how Discord writes mentions and a server's own emoji:
// https://discord.com/developers/docs/reference#message-formatting
var mark = regexp.MustCompile(`<(@!?|@&|#)([0-9]{1,20})>|<a?(:[A-Za-z0-9_~]{1,40}:)[0-9]{1,20}>`)

// withNames replaces ids by names, as people see them. An id whose name is unknown
// stays.
func (in *intake) withNames(text string, m *message, p *place) string {
	if !strings.Contains(text, "<") {
		return text
	}
	return mark.ReplaceAllStringFunc(text, func(written string) string {
		found := mark.FindStringSubmatch(written)
		kind, id, emoji := found[1], found[2], found[3]
		switch {
		case emoji != "":
			return emoji
		case kind == "#":
			if place := in.world.places[id]; place != nil && place.name != "" {
				return "#" + place.name
			}
		case kind == "@&":
			if role := in.world.guild(p.guild).roles[id]; role != "" {
				return "@" + role
			}
		default:
			if name := in.nameOf(id, m); name != "" {
				return "@" + name
			}
		}
		return written
	})
}

func (in *intake) nameOf(id string, m *message) string {
	for _, u := range append([]user{in.me}, m.Mentions...) {
		if u.ID == id {
			return u.shown(nil)
		}
	}
	return ""
}
