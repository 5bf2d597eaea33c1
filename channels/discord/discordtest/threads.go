package discordtest

import (
	"cmp"
	"slices"
)

// ThreadOption changes a thread before it is made.
type ThreadOption func(c *channel)

// Private makes it a private thread of these people; the bot sees it only if
// it is one of them.
func Private(people ...User) ThreadOption {
	return func(c *channel) {
		c.Type = PrivateThread
		for _, p := range people {
			c.members[p.ID] = true
		}
	}
}

// Thread is a thread that somebody makes in a channel, without a message. In
// an announcement channel it is an announcement thread. In a forum use Post.
func (s *Server) Thread(in Channel, by User, name string, options ...ThreadOption) Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.addThread(s.mustChannel(in.ID), s.newID(), name, s.mustUser(by), options...)
	s.dispatchThreadCreate(c)
	return c.Channel
}

// ThreadOn is a thread that somebody makes from a message.
func (s *Server) ThreadOn(m Message, by User, name string) Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startThread(s.messages[m.ID], name, s.mustUser(by)).Channel
}

// Post is a thread of a forum, with the message that begins it.
func (s *Server) Post(in Channel, by User, name, text string, options ...Option) (Channel, Message) {
	s.mu.Lock()
	c := s.addThread(s.mustChannel(in.ID), s.newID(), name, s.mustUser(by))
	s.dispatchThreadCreate(c)
	s.mu.Unlock()
	return c.Channel, s.Say(c.Channel, by, text, append(options, withID(c.ID))...)
}

func (s *Server) addThread(parent *channel, id, name string, by *User, options ...ThreadOption) *channel {
	kind := PublicThread
	if parent.Type == AnnouncementChannel {
		kind = AnnouncementThread
	}
	c := s.addChannel(Channel{ID: id, Guild: parent.Guild, Parent: parent.ID, Name: name, Type: kind})
	c.owner = by.ID
	c.members[by.ID] = true
	for _, o := range options {
		o(c)
	}
	return c
}

// startThread makes a thread from a message, whose id it takes. The thread
// begins with a system message that refers to it, and the message gets a flag.
func (s *Server) startThread(m *Message, name string, by *User) *channel {
	c := s.addThread(s.channels[m.Channel], m.ID, name, by)
	m.thread = c.ID
	m.Flags |= hasThreadFlag
	s.dispatchThreadCreate(c)
	s.post(c, &Message{Author: *by, Type: threadStarter, ReplyTo: m.ID})
	s.dispatchMessage("MESSAGE_UPDATE", m)
	return c
}

// Archive closes a thread; a message opens it again unless it is also locked.
func (s *Server) Archive(thread Channel, locked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChannel(thread.ID)
	c.archived, c.locked = true, locked
	s.dispatchChannel("THREAD_UPDATE", c)
}

// AddToThread makes a user a member of a thread. The bot is told of the
// thread when it is the one.
func (s *Server) AddToThread(thread Channel, who User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChannel(thread.ID)
	c.members[who.ID] = true
	if who.ID == Bot.ID {
		s.dispatchChannel("THREAD_CREATE", c)
	}
}

// Threads are those of a channel, oldest first.
func (s *Server) Threads(of Channel) []Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Channel
	for _, c := range s.threadsOf(of.ID) {
		found = append(found, c.Channel)
	}
	return found
}

func (s *Server) threadsOf(parent string) []*channel {
	var found []*channel
	for _, c := range s.channels {
		if c.IsThread() && c.Parent == parent {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *channel) int { return cmp.Compare(number(a.ID), number(b.ID)) })
	return found
}

// updated is the event that tells of a change.
func (c *channel) updated() string {
	if c.IsThread() {
		return "THREAD_UPDATE"
	}
	return "CHANNEL_UPDATE"
}
