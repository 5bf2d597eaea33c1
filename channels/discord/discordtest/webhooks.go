package discordtest

import (
	"context"
	"slices"
)

// answering is the interaction whose webhook a request names, once it was
// answered and while its token lives.
func (s *Server) answering(r *request) (*interaction, error) {
	i := s.tokens[r.PathValue("token")]
	switch {
	case r.PathValue("application") != ApplicationID || i == nil || i.callback == 0:
		return nil, UnknownWebhook
	case s.now().Sub(i.at) > tokenLife:
		return nil, InvalidWebhookToken
	case s.channels[i.Channel] == nil:
		return nil, UnknownChannel // removed meanwhile
	}
	return i, nil
}

// answerOf is the message of an interaction that a request names.
func (s *Server) answerOf(r *request) (*interaction, *Message, error) {
	i, err := s.answering(r)
	if err != nil {
		return nil, nil, err
	}
	m := i.original
	if id := r.PathValue("message"); id != "@original" {
		m = nil
		for _, later := range append(slices.Clip(i.later), i.original) {
			if later != nil && later.ID == id {
				m = later
			}
		}
	}
	if m == nil || m.Deleted {
		return nil, nil, UnknownMessage
	}
	return i, m, nil
}

func (s *Server) getAnswer(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, m, err := s.answerOf(r)
	if err != nil {
		return nil, err
	}
	return s.wire(m, true), nil
}

func (s *Server) editAnswer(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, m, err := s.answerOf(r)
	if err != nil {
		return nil, err
	}
	d, err := r.readDraft(suppressEmbedsFlag)
	if err != nil {
		return nil, err
	}
	if err := s.update(m, d); err != nil {
		return nil, err
	}
	return s.wire(m, true), nil
}

func (s *Server) deleteAnswer(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, m, err := s.answerOf(r)
	if err != nil {
		return nil, err
	}
	s.erase(m)
	if !m.Ephemeral() {
		s.dispatchDeletion(s.channels[m.Channel], []string{m.ID})
	}
	s.broadcast()
	return nil, nil
}

// followUp makes another message. The first one after a deferral takes the
// place of the "thinking" message, and is as visible as that was.
func (s *Server) followUp(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.answering(r)
	if err != nil {
		return nil, err
	}
	d, err := r.readDraft(suppressEmbedsFlag | ephemeralFlag | silentFlag)
	switch {
	case err != nil:
		return nil, err
	case d.empty():
		return nil, EmptyMessage
	}
	if m := i.original; m != nil && m.Flags&loadingFlag != 0 && !m.Deleted {
		if err := s.update(m, d); err != nil {
			return nil, err
		}
		return s.wire(m, true), nil
	}
	m := s.answerWith(i, d)
	i.later = append(i.later, m)
	s.broadcast()
	return s.wire(m, true), nil
}

// Acknowledged reports whether the interaction got its first answer, which may
// be a deferral.
func (s *Server) Acknowledged(i Interaction) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acknowledged(i.ID)
}

func (s *Server) acknowledged(id string) bool {
	i := s.interactions[id]
	return i != nil && i.callback != 0
}

// Answers are the messages that answer an interaction, as its user sees them:
// the original and those that followed, without a "thinking" one and without
// deleted ones.
func (s *Server) Answers(i Interaction) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers(i.ID)
}

func (s *Server) answers(id string) []Message {
	if !s.acknowledged(id) {
		return nil
	}
	i := s.interactions[id]
	var all []*Message
	if i.original != nil && i.callback != deferredUpdate {
		all = append(all, i.original)
	}
	return copies(append(all, i.later...), func(m *Message) bool { return !m.Deleted && m.Flags&loadingFlag == 0 })
}

// WaitAcknowledged waits for the first answer to an interaction, which may be
// a deferral.
func (s *Server) WaitAcknowledged(ctx context.Context, i Interaction) error {
	return s.wait(ctx, "the first answer to interaction "+i.ID, func() bool { return s.acknowledged(i.ID) })
}

// WaitAnswers waits until n messages answer an interaction, and returns them.
func (s *Server) WaitAnswers(ctx context.Context, i Interaction, n int) ([]Message, error) {
	err := s.wait(ctx, "the answer to interaction "+i.ID, func() bool { return len(s.answers(i.ID)) >= n })
	return s.Answers(i), err
}
