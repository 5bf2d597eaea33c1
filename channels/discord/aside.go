package discord

import (
	"context"
	"strings"

	"parley/conversation"
	"parley/conversation/retry"
	"parley/plaintext"
)

// overhear keeps a message that is not addressed to the bot as group talk, where its
// author may talk to the bot; nothing without the key context.
func (in *intake) overhear(ctx context.Context, m *message, p *place, why string) error {
	if in.Context == 0 || why != notToTheBot {
		return nil
	}
	aside := in.aside(m, p)
	if aside.Text == "" {
		return nil
	}
	known := m.author().Bot // allow_bots names it
	err := retry.Persist(ctx, in.Log, "see who may talk", func() (err error) {
		if !known {
			known, err = in.access.Knows(ctx, visitor(m.author(), m.Member, p))
		}
		return err
	})
	if err != nil || !known {
		return unlessDamaged(err)
	}
	in.batch = append(in.batch, aside)
	return in.flushFull(ctx)
}

// aside returns a message as group talk: with the names of its files, and without what it
// replies to.
func (in *intake) aside(m *message, p *place) conversation.Inbound {
	text := in.readable(m, p)
	for _, a := range m.Attachments {
		text = joinLines(text, "[file "+plaintext.OneLine(a.Filename)+"]")
	}
	by := m.author()
	inbound := conversation.Inbound{
		Aside: true, SourceID: m.ID, Text: strings.TrimSpace(text), At: bornAt(m.ID),
		Sender: conversation.Sender{ID: by.ID, Name: by.shown(m.Member)},
	}
	in.route(&inbound, p, address{Channel: p.id, Source: m.ID})
	return inbound
}

// isHeard reports whether messages of a place may be stored: the bot was addressed there,
// or it keeps the group talk.
func (in *intake) isHeard(p *place) bool { return in.isKnown(p) || in.Context > 0 && !p.isDM() }
