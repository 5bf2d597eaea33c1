package discord

import (
	"context"
	"slices"

	"parley/channels/access"
	"parley/conversation"
)

// said takes a message that somebody wrote, if it is for the assistant.
func (in *intake) said(ctx context.Context, m *message, p *place) error {
	if why := in.unmeant(m, p); why != "" {
		in.Log.Debug("message skipped", "message", m.ID, "channel_id", p.id, "reason", why)
		in.saw(p, m.ID)
		return nil
	}
	ok, words, err := in.admits(ctx, m.author(), m.Member, p)
	if err != nil {
		return err
	}
	if !ok {
		in.saw(p, m.ID)
		in.tell(p.id, m, words)
		return nil
	}
	in.take(in.inbound(m, p), p.id, m.ID)
	return in.flushFull(ctx)
}

// unmeant says why a message is not for the assistant, "" when it is. In DMs
// every message is, in threads where the bot was addressed or that it opened,
// in free channels, and anywhere when it is mentioned or replied to.
func (in *intake) unmeant(m *message, p *place) string {
	by := m.author()
	switch {
	case m.ID == "" || by.ID == "":
		return "no id or author"
	case m.Author.ID == in.me.ID:
		return "the bot's own"
	case !m.isWritten():
		return "nobody wrote it"
	case by.Bot && !slices.Contains(in.AllowBots, by.ID):
		return "from a bot that is not in allow_bots"
	case p.isDM() || p.isThread() && (in.knows(p) || p.owner == in.me.ID) || in.isFree(p):
	case !in.mentioned(m, p) && !m.repliesTo(in.me.ID):
		return "not to the bot"
	}
	return ""
}

// mentioned tells whether the message names the bot, or the role that stands
// for it.
func (in *intake) mentioned(m *message, p *place) bool {
	role := in.world.guild(p.guild).botRole
	return m.mentions(in.me.ID) || role != "" && slices.Contains(m.MentionRoles, role)
}

// admits asks access about a person in a place, again and again while the store
// can't tell.
func (in *intake) admits(ctx context.Context, who user, as *member, p *place) (ok bool, words string, err error) {
	if who.Bot {
		return true, "", nil // allow_bots names it
	}
	v := access.Visitor{
		Sender: conversation.Sender{ID: who.ID, Name: who.shown(as)}, Private: p.isDM(),
		IDs:   append([]string{p.guild, p.id, p.parent}, as.roles()...),
		Names: []access.Username{{Name: who.handle(), Holder: who.ID}},
	}
	err = conversation.Persist(ctx, in.Log, "see who may talk", func() error {
		ok, words, err = in.access.Admit(ctx, v)
		return err
	})
	return ok, words, unlessDamaged(err) // whom the store does not know stays outside
}

// tell answers a stranger, beside the intake. Without words, it is silent.
func (in *intake) tell(place string, said *message, words string) {
	if words == "" {
		return
	}
	m := newOutgoing(words)
	m.Reference = &replyTo{MessageID: said.ID}
	m.Nonce, m.Enforce = address{Source: said.ID}.nonce(0), true
	in.access.Tell(said.author().ID, func(ctx context.Context) error {
		_, err := in.create(ctx, place, m)
		if err != nil {
			err = in.sendError(err)
		}
		return err
	})
}

// inbound is a message as it is stored.
func (in *intake) inbound(m *message, p *place) conversation.Inbound {
	by := m.author()
	inbound := conversation.Inbound{
		SourceID:    m.ID,
		Sender:      conversation.Sender{ID: by.ID, Name: by.shown(m.Member)},
		Text:        in.text(m, p),
		Attachments: in.attachments(m, p),
		At:          bornAt(m.ID),

		NeverCommand: m.isSecondHand(),
	}
	to := address{Channel: p.id, Source: m.ID, ReplyTo: m.ID}
	if _, command := inbound.Command(); !command && in.opensThread(m, p) {
		p, to = in.threadOn(m, p, inbound.Text)
	}
	to.Own = to.Own || p.isThread() && p.owner == in.me.ID
	in.settle(&inbound, p, to)
	return inbound
}

// settle says where a message belongs.
func (in *intake) settle(inbound *conversation.Inbound, p *place, to address) {
	inbound.Address = to.String()
	inbound.Account = in.Account().ID
	inbound.Group = !p.isDM()
	inbound.Place = in.world.describe(p, inbound.Sender)
	switch {
	case p.isDM():
		inbound.Key = dmKey(inbound.Sender.ID)
	case p.isThread():
		inbound.Key = threadKey(p.id)
		inbound.Title = p.name
	default:
		inbound.Key = channelKey(p.id)
	}
}

// opensThread reports whether the talk goes on in a thread of its own. A command
// acts where it is given, and opens none.
func (in *intake) opensThread(m *message, p *place) bool {
	return in.AutoThread && p.takesThreads() && in.mentioned(m, p) && !in.threads.isClosed(p.id)
}

// threadOn is the thread that will be opened on a message, named after it.
func (in *intake) threadOn(m *message, p *place, text string) (*place, address) {
	title := threadName(in.withoutQuote(m, p, text))
	if title == "" {
		title = threadName("Talk with " + m.author().shown(m.Member))
	}
	thread := &place{id: m.ID, guild: p.guild, parent: p.id, name: title, kind: typePublicThread, owner: in.me.ID}
	if known := in.world.places[m.ID]; known != nil {
		thread = known // it was opened already
	}
	in.know(m.ID, number(m.ID))
	return thread, address{Channel: m.ID, Source: m.ID, Parent: p.id, Name: title, Own: true}
}

// changed takes an edit. Discord also updates messages that nobody edited, for
// instance when it has looked at a link. Nothing was ever taken from places that
// are not known, and who was put out meanwhile is not heard any more.
func (in *intake) changed(ctx context.Context, m *message, p *place) error {
	at := m.editedAt()
	if !in.knows(p) || at.IsZero() || m.Author.ID == in.me.ID || !m.isWritten() {
		return nil
	}
	if ok, _, err := in.admits(ctx, m.author(), m.Member, p); err != nil || !ok {
		return err
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	return unlessDamaged(conversation.Persist(ctx, in.Log, "store an edit", func() error {
		return in.Store.Edit(ctx, in.Account(), m.ID, in.text(m, p), at)
	}))
}

// deleted takes messages back that were deleted before they were answered.
func (in *intake) deleted(ctx context.Context, p *place, ids ...string) error {
	if !in.knows(p) {
		return nil
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		err := conversation.Persist(ctx, in.Log, "store a deletion", func() error { return in.Store.Withdraw(ctx, in.Account(), id) })
		if unlessDamaged(err) != nil {
			return err
		}
	}
	return nil
}
