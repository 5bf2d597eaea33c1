package discordtest

import (
	"context"
	"fmt"
	"slices"
)

// Sent returns everything that the bot ever sent, in order, as it is now: also what was
// deleted since (Message.Deleted) and what only one person sees (Message.Ephemeral).
func (s *Server) Sent() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copies(s.sent, func(*Message) bool { return true })
}

// SentTo returns the bot's messages in a place, oldest first and as they are now, without
// those that were deleted or shown to one person alone.
func (s *Server) SentTo(place Channel) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sentTo(place.ID)
}

func (s *Server) sentTo(id string) []Message {
	if c := s.channels[id]; c != nil {
		return copies(c.messages, (*Message).bySelf)
	}
	return nil
}

// standing returns the number of the bot's messages in a place.
func (s *Server) standing(id string) int {
	n := 0
	if c := s.channels[id]; c != nil {
		for _, m := range c.messages {
			if m.bySelf() {
				n++
			}
		}
	}
	return n
}

// bySelf reports whether the bot wrote it, unlike a system message in its name.
func (m *Message) bySelf() bool { return m.Author.ID == Bot.ID && m.spoken() }

// spoken reports whether somebody wrote it, unlike a system message.
func (m *Message) spoken() bool {
	return m.Type == ordinary || m.Type == reply || m.Type == chatInputCommand
}

// Seen returns what a user sees in a place, oldest first: everybody's messages, and those
// that were shown to that user alone.
func (s *Server) Seen(place Channel, by User) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Message
	if c := s.channels[place.ID]; c != nil {
		all = slices.Clone(c.messages)
	}
	for _, m := range s.sent {
		if m.Channel == place.ID && m.Ephemeral() && m.Asker == by.ID && !m.Deleted {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, byID)
	return copies(all, func(*Message) bool { return true })
}

func copies(from []*Message, keep func(*Message) bool) []Message {
	var list []Message
	for _, m := range from {
		if keep(m) {
			list = append(list, m.copy())
		}
	}
	return list
}

// Message returns anybody's message as it is now, also if it was deleted.
func (s *Server) Message(id string) (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.messages[id]
	if m == nil {
		return Message{}, false
	}
	return m.copy(), true
}

// Calls returns how often a route was called, such as "GET /gateway/bot", whatever the
// answer; rejected tokens do not count.
func (s *Server) Calls(route string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[route]
}

// Log returns the requests so far, except those that create messages.
func (s *Server) Log() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Typing returns how often the bot was shown typing in a place.
func (s *Server) Typing(place Channel) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.typing[place.ID]
}

// Counts returns the totals so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Connected returns the number of sessions with a connection.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected()
}

// Sessions returns the number of sessions that are connected, or can be resumed.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

func (s *Server) connected() int {
	n := 0
	for _, x := range s.sessions {
		if x.conn != nil {
			n++
		}
	}
	return n
}

// wait returns when done returns true, or with an error when ctx ends. It calls done after
// everything that the server does, with the lock held.
func (s *Server) wait(ctx context.Context, what string, done func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !done() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("discordtest: waiting for %s: %w", what, err)
		}
		s.changed.Wait()
	}
	return nil
}

// Wait returns when done returns true, or with an error that names what it waited for when ctx
// ends. It calls done after everything that the server does; done may call any method of the
// server except those that wait.
func (s *Server) Wait(ctx context.Context, what string, done func() bool) error {
	for {
		s.mu.Lock()
		seen := s.changes
		s.mu.Unlock()
		if done() {
			return nil
		}
		if err := s.wait(ctx, what, func() bool { return s.changes != seen }); err != nil {
			return err
		}
	}
}

// WaitSent waits until the bot sent n messages in all, and returns them.
func (s *Server) WaitSent(ctx context.Context, n int) ([]Message, error) {
	err := s.wait(ctx, fmt.Sprintf("%d messages", n), func() bool { return len(s.sent) >= n })
	return s.Sent(), err
}

// WaitSentTo waits until n messages of the bot stand in a place, and returns them.
func (s *Server) WaitSentTo(ctx context.Context, place Channel, n int) ([]Message, error) {
	err := s.wait(ctx, fmt.Sprintf("%d messages in %s", n, place.ID), func() bool { return s.standing(place.ID) >= n })
	return s.SentTo(place), err
}

// WaitCalls waits until a route was called n times in all.
func (s *Server) WaitCalls(ctx context.Context, route string, n int) error {
	return s.wait(ctx, fmt.Sprintf("%d calls of %s", n, route), func() bool { return s.calls[route] >= n })
}

// WaitConnected waits until n sessions have a connection.
func (s *Server) WaitConnected(ctx context.Context, n int) error {
	return s.wait(ctx, fmt.Sprintf("%d sessions", n), func() bool { return s.connected() >= n })
}

// WaitDisconnected waits until no client is connected.
func (s *Server) WaitDisconnected(ctx context.Context) error {
	return s.wait(ctx, "the end of all connections", func() bool { return len(s.sockets) == 0 })
}
