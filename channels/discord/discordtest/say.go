package discordtest

import (
	"encoding/json"
	"slices"
	"time"
)

// Option changes a message of a person before it is said.
type Option func(s *Server, m *Message)

// ReplyTo makes it a reply, which notifies the author of what it replies to.
func ReplyTo(to Message) Option {
	return func(_ *Server, m *Message) {
		m.Type, m.ReplyTo = reply, to.ID
		m.Pinged.RepliedUser = true
	}
}

// ReplySilently makes it a reply that does not notify.
func ReplySilently(to Message) Option {
	return func(_ *Server, m *Message) { m.Type, m.ReplyTo = reply, to.ID }
}

// Forward makes it a forward of a message, which has no text of its own.
func Forward(of Message) Option {
	return func(_ *Server, m *Message) { m.Forward = of.ID }
}

// Attach adds files, which the CDN serves.
func Attach(files ...File) Option {
	return func(_ *Server, m *Message) { m.Files = append(m.Files, files...) }
}

// At says it at another time, such as before the bot was started. It then has
// its place among the messages of that time.
func At(t time.Time) Option {
	return func(s *Server, m *Message) { m.At, m.ID = t, s.newIDAt(t) }
}

// OfType makes it a system message of a type of Discord's, such as 7 (somebody joined).
func OfType(kind int) Option {
	return func(_ *Server, m *Message) { m.Type = kind }
}

func withID(id string) Option {
	return func(_ *Server, m *Message) { m.ID = id }
}

// Say makes a message that somebody writes in a place. What it mentions in
// Discord's form (User.Mention) is mentioned. It opens an archived thread.
func (s *Server) Say(place Channel, from User, text string, options ...Option) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChannel(place.ID)
	m := &Message{Author: *s.mustUser(from)}
	for _, o := range options {
		o(s, m)
	}
	if m.At.IsZero() {
		m.At = s.now()
	}
	m.setVersion(Version{Content: text, Pinged: everybody.pings(text, m.Pinged.RepliedUser), At: m.At})
	s.post(c, m)
	return m.copy()
}

// post puts a message into a channel and tells the sessions.
func (s *Server) post(c *channel, m *Message) {
	if m.At.IsZero() {
		m.At = s.now()
	}
	if m.ID == "" {
		m.ID = s.newID()
	}
	m.Channel, m.Guild = c.ID, c.Guild
	if m.Versions == nil {
		m.setVersion(Version{At: m.At})
	}
	s.publish(m)
	s.messages[m.ID] = m
	i, _ := slices.BinarySearchFunc(c.messages, m, byID)
	c.messages = slices.Insert(c.messages, i, m)
	if g := s.guilds[c.Guild]; g != nil {
		g.join(s.mustUser(m.Author))
	}
	if c.IsThread() {
		c.members[m.Author.ID] = true
		s.reopen(c)
	}
	if m.bySelf() {
		s.sent = append(s.sent, m)
	}
	s.dispatchMessage("MESSAGE_CREATE", m)
	s.broadcast()
}

func (s *Server) reopen(c *channel) {
	if c.archived && !c.locked {
		c.archived = false
		s.dispatchChannel("THREAD_UPDATE", c)
	}
}

func byID(a, b *Message) int {
	x, y := number(a.ID), number(b.ID)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// setVersion makes v the present version of the message.
func (m *Message) setVersion(v Version) {
	m.Version = v
	m.Versions = append(slices.Clip(m.Versions), v)
}

// copy returns a copy for tests, which does not change any more.
func (m *Message) copy() Message { return *m }

// Edit changes what somebody said.
func (s *Server) Edit(said Message, text string) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.messages[said.ID]
	if m == nil || m.Deleted {
		return said
	}
	m.setVersion(Version{Content: text, Pinged: everybody.pings(text, m.Pinged.RepliedUser), At: s.now()})
	s.dispatchMessage("MESSAGE_UPDATE", m)
	s.broadcast()
	return m.copy()
}

// Unfurl makes the MESSAGE_UPDATE that comes when Discord has looked up a link
// in a message: nothing in it was edited.
func (s *Server) Unfurl(said Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.messages[said.ID]; m != nil && !m.Deleted {
		m.Embeds = json.RawMessage(`[{"type":"link","title":"A page"}]`)
		s.dispatchMessage("MESSAGE_UPDATE", m)
	}
}

// Delete takes messages away, of people or of the bot; several at once are one
// MESSAGE_DELETE_BULK, as when a moderator cleans up.
func (s *Server) Delete(said ...Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, m := range said {
		if s.erase(s.messages[m.ID]) {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) > 0 {
		s.dispatchDeletion(s.channels[said[0].Channel], ids)
	}
	s.broadcast()
}

// erase marks the message deleted and takes it out of its channel.
func (s *Server) erase(m *Message) bool {
	if m == nil || m.Deleted {
		return false
	}
	m.Deleted = true
	c := s.channels[m.Channel]
	if c == nil {
		return false
	}
	if i, ok := slices.BinarySearchFunc(c.messages, m, byID); ok && c.messages[i] == m {
		c.messages = slices.Delete(c.messages, i, i+1)
	}
	return true
}
