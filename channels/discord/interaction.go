package discord

import (
	"context"
	"slices"

	"parley/channels"
	"parley/conversation"
)

// notAllowed is what a stranger in a server sees, who alone sees it.
const notAllowed = "I am not allowed to talk with you here. Write me a direct message to ask for it."

// refuse answers a stranger's command, so that it does not seem to fail.
func (in *intake) refuse(ctx context.Context, to address, words string) {
	if words == "" {
		words = notAllowed
	}
	m := newOutgoing(words)
	m.Flags |= ephemeral
	in.help(func() {
		if err := in.respond(ctx, to, callback{Type: withMessage, Data: &m}); err != nil {
			in.Log.Debug("a stranger's command is not answered", "error", err)
		}
	})
}

// used takes a slash command or a button.
func (in *intake) used(ctx context.Context, i *interaction, p *place) error {
	by, as := i.user()
	if i.Type != commandUsed && i.Type != componentPressed || i.ID == "" || by.ID == "" {
		in.Log.Debug("interaction skipped", "interaction", i.ID, "type", i.Type)
		return nil
	}
	to := address{Channel: p.id, Source: i.ID, Own: p.isThread() && p.owner == in.me.ID, Answer: &answering{
		Application: i.ApplicationID, Token: i.Token, User: by.ID, DM: p.isDM(),
		Private: in.isPrivate(i), Component: i.Type == componentPressed,
	}}
	ok, words, err := in.admits(ctx, by, as, p)
	if err != nil {
		return err
	}
	if !ok {
		in.refuse(ctx, to, words)
		return nil
	}
	inbound := conversation.Inbound{
		SourceID: sourceID(i.ID),
		Sender:   conversation.Sender{ID: by.ID, Name: by.shown(as)},
		Text:     commandText(in.Commands, i),
		At:       bornAt(i.ID),
	}
	in.settle(&inbound, p, to)
	first := in.deferrals.begin(i.ID)
	known := in.seen[p.id] // a mark of messages, which the id of an interaction may be ahead of
	in.take(inbound, p.id, i.ID)
	if known > 0 {
		in.seen[p.id] = known
	}
	in.accepted = append(in.accepted, func() {
		in.help(func() { in.deferAnswer(ctx, to, first) })
	})
	return in.flush(ctx)
}

// user is who used the interaction, and as which member of a server.
func (i *interaction) user() (user, *member) {
	switch {
	case i.Member != nil && i.Member.User != nil:
		return *i.Member.User, i.Member
	case i.User != nil:
		return *i.User, nil
	}
	return user{}, nil
}

// isPrivate tells whether the answer to a command is for the asker alone. That
// to a button is where the button is.
func (in *intake) isPrivate(i *interaction) bool {
	return i.Type == commandUsed && slices.ContainsFunc(in.Commands, func(c channels.Command) bool { return c.Name == i.Data.Name && c.Private })
}
