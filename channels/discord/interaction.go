package discord

import (
	"context"
	"slices"

	"parley/channels"
	"parley/conversation"
)

// notAllowed is the answer to a stranger in a server. Nobody else sees it.
const notAllowed = "I am not allowed to talk with you here. Send me a direct message to ask for access."

// refuse answers a stranger's command, so that it does not seem to fail.
func (in *intake) refuse(ctx context.Context, to address, words string) {
	if words == "" {
		words = notAllowed
	}
	m := newOutgoing(words)
	m.Flags |= ephemeral
	in.goHelper(func() {
		if err := in.respond(ctx, to, callback{Type: withMessage, Data: &m}); err != nil {
			in.Log.Debug("refusal of a stranger's command not sent", "error", err)
		}
	})
}

// used accepts an interaction, which is a slash command or the press of a button, as a message.
func (in *intake) used(ctx context.Context, i *interaction, p *place) error {
	to, ok, err := in.welcome(ctx, i, p)
	if err != nil || !ok {
		return err
	}
	in.endBotRun(p)
	by, as := i.user()
	inbound := conversation.Inbound{
		SourceID: sourceID(i.ID),
		Sender:   conversation.Sender{ID: by.ID, Name: by.shown(as)},
		Text:     commandText(in.Commands, i),
		At:       bornAt(i.ID),
	}
	in.route(&inbound, p, to)
	first, fresh := in.deferrals.begin(i.ID)
	known := in.seen[p.id] // only ids of messages move this mark: an interaction's id may be ahead of them
	in.take(inbound, p.id, i.ID)
	if known > 0 {
		in.seen[p.id] = known
	}
	if fresh {
		in.accepted = append(in.accepted, func() {
			in.goHelper(func() { in.deferAnswer(ctx, to, first) })
		})
	}
	return in.flush(ctx)
}

// usedInHold sends the first response to an interaction in a place that is held back.
// Discord waits only three seconds for this response, and does not repeat the interaction
// after a restart.
func (in *intake) usedInHold(ctx context.Context, i *interaction, p *place) error {
	to, ok, err := in.welcome(ctx, i, p)
	if err != nil || !ok {
		return err
	}
	if first, fresh := in.deferrals.begin(i.ID); fresh {
		in.goHelper(func() { in.deferAnswer(ctx, to, first) })
	}
	return nil
}

// welcome returns where an interaction is answered. ok is false if it is not for the
// assistant, or if it comes from a stranger, who gets an answer that says so.
func (in *intake) welcome(ctx context.Context, i *interaction, p *place) (to address, ok bool, err error) {
	by, as := i.user()
	if i.Type != commandUsed && i.Type != componentPressed || i.ID == "" || by.ID == "" {
		in.Log.Debug("interaction skipped", "interaction", i.ID, "type", i.Type)
		return to, false, nil
	}
	to = address{Channel: p.id, Source: i.ID, Own: p.isThread() && p.owner == in.me.ID, Answer: &answering{
		Application: i.ApplicationID, Token: i.Token, User: by.ID, DM: p.isDM(),
		Private: in.isPrivate(i), Component: i.Type == componentPressed,
	}}
	ok, words, err := in.admits(ctx, by, as, p)
	if err == nil && !ok {
		in.refuse(ctx, to, words)
	}
	return to, ok, err
}

// user returns who used the interaction, and the member of the server they are.
func (i *interaction) user() (user, *member) {
	switch {
	case i.Member != nil && i.Member.User != nil:
		return *i.Member.User, i.Member
	case i.User != nil:
		return *i.User, nil
	}
	return user{}, nil
}

// isPrivate reports whether only the asker sees the answer. The answer to a button is
// private when nobody else sees the button.
func (in *intake) isPrivate(i *interaction) bool {
	if i.Type == componentPressed {
		return i.Message != nil && i.Message.Flags&ephemeral != 0
	}
	return slices.ContainsFunc(in.Commands, func(c channels.Command) bool { return c.Name == i.Data.Name && c.Private })
}
