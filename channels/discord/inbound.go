package discord

import (
	"context"
	"slices"
	"time"

	"parley/channels/access"
	"parley/conversation"
	"parley/conversation/retry"
)

// handleMessage accepts a message that somebody wrote, if it is for the
// assistant.
func (in *intake) handleMessage(ctx context.Context, m *message, p *place) error {
	if m.isWritten() && !m.author().Bot {
		in.endBotRun(p)
	}
	why := in.whyIgnored(m, p)
	if why == "" && m.author().Bot && !in.answersBot(m, p) {
		why = "bots alone"
	}
	if why != "" {
		in.Log.Debug("message skipped", "message", m.ID, "channel_id", p.id, "reason", why)
		in.advance(p, m.ID)
		return in.overhear(ctx, m, p, why)
	}
	ok, words, err := in.admits(ctx, m.author(), m.Member, p)
	if err != nil {
		return err
	}
	if !ok {
		in.advance(p, m.ID)
		in.tell(p.id, m, words)
		return nil
	}
	in.take(in.inbound(m, p), p.id, m.ID)
	return in.flushFull(ctx)
}

// notToTheBot is the logged reason for ignoring a message that does not address the bot.
const notToTheBot = "not to the bot"

// whyIgnored returns why a message is not for the assistant, and "" when it is.
// Every message is in DMs, in threads that the bot opened or was addressed in,
// and in free channels; elsewhere one that mentions the bot or replies to it.
func (in *intake) whyIgnored(m *message, p *place) string {
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
	case p.isDM() || p.isThread() && (in.isKnown(p) || p.owner == in.me.ID) || in.isFree(p):
	case !in.mentioned(m, p) && !m.repliesTo(in.me.ID):
		return notToTheBot
	}
	return ""
}

// mentioned reports whether the message mentions the bot or its role.
func (in *intake) mentioned(m *message, p *place) bool {
	role := in.world.guild(p.guild).botRole
	return m.mentions(in.me.ID) || role != "" && slices.Contains(m.MentionRoles, role)
}

// admits reports whether a person may talk in a place. It asks again while the
// store can't tell.
func (in *intake) admits(ctx context.Context, who user, as *member, p *place) (ok bool, words string, err error) {
	if who.Bot {
		return true, "", nil // allow_bots names it
	}
	v := visitor(who, as, p)
	err = retry.Persist(ctx, in.Log, "see who may talk", func() error {
		ok, words, err = in.access.Admit(ctx, v)
		return err
	})
	return ok, words, unlessDamaged(err) // whom the store does not know stays outside
}

// visitor returns a person in a place as access knows them.
func visitor(who user, as *member, p *place) access.Visitor {
	return access.Visitor{
		Sender: conversation.Sender{ID: who.ID, Name: who.shown(as)}, Private: p.isDM(),
		IDs:   append([]string{p.guild, p.id, p.parent}, as.roles()...),
		Names: []access.Username{{Name: who.handle(), Holder: who.ID}},
	}
}

// tell sends a text to a stranger in the background. It does nothing for an empty text.
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
			err = in.sendError(err, false)
		}
		return err
	})
}

// inbound returns a message as it is accepted.
func (in *intake) inbound(m *message, p *place) conversation.Inbound {
	by := m.author()
	inbound := conversation.Inbound{
		Talk:        conversation.Talk{Most: in.Context},
		SourceID:    m.ID,
		Sender:      conversation.Sender{ID: by.ID, Name: by.shown(m.Member)},
		Text:        in.text(m, p),
		Attachments: in.attachments(m, p),
		At:          bornAt(m.ID),

		NeverCommand: m.isSecondHand(),
	}
	to := address{Channel: p.id, Source: m.ID, ReplyTo: m.ID}
	if _, command := inbound.Command(); !command && in.opensThread(m, p) {
		inbound.Talk.Of = channelKey(p.id) // the new thread has none
		p, to = in.threadOn(m, p, inbound.Text)
	}
	to.Own = to.Own || p.isThread() && p.owner == in.me.ID
	in.route(&inbound, p, to)
	return inbound
}

// route sets the session and the address of a message.
func (in *intake) route(inbound *conversation.Inbound, p *place, to address) {
	to.Server = p.guild
	if p.isThread() {
		to.Within = p.parent
	}
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

// opensThread reports whether the answer goes to a new thread. A command is answered where
// it was given.
func (in *intake) opensThread(m *message, p *place) bool {
	return in.AutoThread && p.takesThreads() && in.mentioned(m, p) && !in.threads.isClosed(p.id)
}

// threadOn returns the thread that will be opened on a message, named after its
// text.
func (in *intake) threadOn(m *message, p *place, text string) (*place, address) {
	title := threadName(in.withoutQuote(m, p, text))
	if title == "" {
		title = threadName("Talk with " + m.author().shown(m.Member))
	}
	thread := &place{id: m.ID, guild: p.guild, parent: p.id, name: title, kind: typePublicThread, owner: in.me.ID}
	if known := in.world.places[m.ID]; known != nil {
		thread = known // it was opened already
	}
	in.addKnown(m.ID, number(m.ID))
	return thread, address{Channel: m.ID, Source: m.ID, Parent: p.id, Name: title, Own: true}
}

// changed handles an edit. Discord also updates messages that nobody has edited,
// for instance to add the preview of a link. It ignores edits in
// unknown places, from which nothing was accepted, and of people who may no longer talk.
func (in *intake) changed(ctx context.Context, m *message, p *place) error {
	at := m.editedAt()
	if !in.isHeard(p) || at.IsZero() || m.Author.ID == in.me.ID || !m.isWritten() {
		return nil
	}
	if ok, _, err := in.admits(ctx, m.author(), m.Member, p); err != nil || !ok {
		return err
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	why, text := in.whyIgnored(m, p), in.text(m, p)
	if why == notToTheBot {
		text = in.aside(m, p).Text
	}
	err := retry.Persist(ctx, in.Log, "store an edit", func() error {
		return in.Store.Edit(ctx, in.Account(), m.ID, text, at)
	})
	isRecent := at.Sub(bornAt(m.ID)) <= editLife
	if why == "" && isRecent && (!m.author().Bot || in.answersBot(m, p)) { // it may be one for the bot only now; the store drops it where it is known
		inbound := in.inbound(m, p)
		inbound.NeverCommand = true // what reads like one now was not written as one
		in.take(inbound, p.id, m.ID)
	}
	return unlessDamaged(err)
}

// editLife is for how long after it was written an edit may make a message one for the
// bot.
const editLife = 24 * time.Hour

// deleted withdraws messages that were deleted before they were answered.
func (in *intake) deleted(ctx context.Context, p *place, ids ...string) error {
	if !in.isHeard(p) {
		return nil
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		err := retry.Persist(ctx, in.Log, "store a deletion", func() error { return in.Store.Withdraw(ctx, in.Account(), id) })
		if unlessDamaged(err) != nil {
			return err
		}
		in.unanswered(ctx, p, id)
	}
	return nil
}

// unanswered removes the preview of the answer to a message that was deleted, which no reply may ever
// replace. Nothing more is shown of that answer before its reply, if one comes.
func (in *intake) unanswered(ctx context.Context, p *place, id string) {
	for _, at := range []string{p.id, id} { // the second is a thread that was opened on the message
		if to, run, ok := in.previews.UnderWay(at); ok && to.Source == id {
			in.goHelper(func() { in.dropPreview(ctx, to, conversation.Delivery{RunID: run}, in.previews.End) })
		}
	}
}
