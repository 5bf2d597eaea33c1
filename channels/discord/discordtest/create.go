package discordtest

import "time"

// nonceWindow is how long a nonce is remembered: "the past few minutes" of
// https://discord.com/developers/docs/resources/message#create-message
const nonceWindow = 5 * time.Minute

// nonceUse is the message that a nonce was last used for.
type nonceUse struct {
	message *Message
	at      time.Time
}

func (s *Server) createMessage(r *request) (any, error) {
	m, d, err := s.prepare(r)
	if err != nil {
		return nil, err
	}
	before, _ := s.hooks()
	if earlier := s.repetition(m); earlier == nil {
		if v := ask(before, r, *m); !v.passes() {
			return nil, v
		}
	}
	answer, fresh, err := s.take(r.PathValue("channel"), m, d)
	if err != nil || !fresh {
		return answer, err
	}
	_, after := s.hooks()
	if v := ask(after, r, s.snapshot(m)); !v.passes() {
		return nil, v
	}
	return answer, nil
}

func (s *Server) hooks() (before, after func(Message) Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before, s.after
}

func (s *Server) snapshot(m *Message) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.copy()
}

func ask(hook func(Message) Verdict, r *request, m Message) Verdict {
	if hook == nil {
		return Verdict{}
	}
	v := hook(m)
	v.pause(r.Request)
	return v
}

// prepare returns the message that a request asks for, if the bot may send it.
func (s *Server) prepare(r *request) (*Message, *draft, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.place(r.PathValue("channel"))
	if err != nil {
		return nil, nil, err
	}
	d, err := r.readDraft(suppressEmbedsFlag | silentFlag)
	if err == nil {
		err = s.sendable(c, d)
	}
	if err != nil {
		return nil, nil, err
	}
	m := &Message{Channel: c.ID, Guild: c.Guild, Author: Bot, Enforce: d.Enforce, Flags: d.flags(), Files: d.files}
	m.Embeds, m.Components = present(d.Embeds), present(d.Components)
	if m.Nonce, err = d.nonce(); err != nil {
		return nil, nil, err
	}
	if err := s.refersTo(m, c, d); err != nil {
		return nil, nil, err
	}
	v := d.version(m.ReplyTo != "")
	v.At = s.now()
	m.setVersion(v)
	return m, d, nil
}

func present(raw []byte) []byte {
	if absent(raw) {
		return nil
	}
	return raw
}

// sendable checks that the bot may send to the place.
func (s *Server) sendable(c *channel, d *draft) error {
	needs := SendMessages
	if c.IsThread() {
		needs = SendInThreads
	}
	if len(d.files) > 0 {
		needs |= AttachFiles
	}
	switch {
	case c.Type == ForumChannel || c.Type == CategoryChannel:
		return NonTextChannel
	case c.closed:
		return CannotDM
	case !s.may(c, needs):
		return MissingPermissions
	case c.archived && c.locked:
		return ThreadArchived
	case d.empty():
		return EmptyMessage
	}
	return nil
}

// refersTo reads message_reference.
func (s *Server) refersTo(m *Message, c *channel, d *draft) error {
	if d.Reference == nil {
		return nil
	}
	if !isSnowflake(d.Reference.Message) {
		return invalid("message_reference.message_id", "NUMBER_TYPE_COERCE", "Value %q is not snowflake.", d.Reference.Message)
	}
	if d.Reference.Channel != "" && d.Reference.Channel != c.ID {
		return invalid("message_reference", "MESSAGE_REFERENCE_CHANNEL", "The message replied to is of another channel.")
	}
	if !s.may(c, ReadMessageHistory) {
		return CannotReply
	}
	to := s.messages[d.Reference.Message]
	known := to != nil && !to.Deleted && !to.Ephemeral() && to.Channel == c.ID
	switch {
	case known && to.Type != ordinary && to.Type != reply && to.Type != chatInputCommand:
		return invalid("message_reference", "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", "Cannot reply to a system message")
	case known:
		m.Type, m.ReplyTo = reply, to.ID
	case d.Reference.Fail == nil || *d.Reference.Fail:
		return invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
	}
	return nil
}

// repetition returns the message that was created with the same nonce in the last minutes, if the
// client asked Discord to enforce the nonce.
func (s *Server) repetition(m *Message) *Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.repeated(m)
}

func (s *Server) repeated(m *Message) *Message {
	use, ok := s.nonces[m.Nonce]
	if m.Nonce == "" || !m.Enforce || !ok || s.now().Sub(use.at) > nonceWindow {
		return nil
	}
	return use.message
}

// take records the message; fresh is false when a message with its nonce exists already.
func (s *Server) take(channel string, m *Message, d *draft) (answer any, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier := s.repeated(m); earlier != nil {
		if earlier.Channel != m.Channel {
			s.violate("the nonce %q of a message to %s was used in %s a short while ago", m.Nonce, m.Channel, earlier.Channel)
		}
		s.counts.Nonced++
		return s.wire(earlier, s.readable()), false, nil
	}
	c := s.channels[channel]
	if c == nil {
		return nil, false, UnknownChannel // removed meanwhile
	}
	s.post(c, m)
	if m.Nonce != "" {
		s.nonces[m.Nonce] = nonceUse{m, s.now()}
	}
	return s.wire(m, s.readable()), true, nil
}

// readable reports whether the application may read what people write.
func (s *Server) readable() bool { return !s.config.WithoutMessageContent }
