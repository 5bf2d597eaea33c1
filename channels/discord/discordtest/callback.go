package discordtest

import (
	"encoding/json"
	"time"
)

// What an interaction allows, from when it began.
// https://discord.com/developers/docs/interactions/receiving-and-responding#followup-messages
const (
	firstAnswer = 3 * time.Second
	tokenLife   = 15 * time.Minute
)

// Kinds of first answers:
// https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-response-object-interaction-callback-type
const (
	withMessage    = 4
	deferred       = 5
	deferredUpdate = 6
	withUpdate     = 7
)

// callback stores the first answer to an interaction.
func (s *Server) callback(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.interactions[r.PathValue("interaction")]
	switch {
	case i == nil || i.Token != r.PathValue("token"):
		return nil, UnknownInteraction
	case i.callback != 0:
		return nil, AlreadyAcknowledged
	case s.now().Sub(i.at) > firstAnswer:
		return nil, UnknownInteraction
	}
	var response struct {
		Type int             `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := r.decode(&response); err != nil {
		return nil, err
	}
	r.body = response.Data
	d, err := r.readDraft(suppressEmbedsFlag | ephemeralFlag | silentFlag)
	if err != nil {
		return nil, err
	}
	if err := s.respond(i, response.Type, d); err != nil {
		return nil, err
	}
	i.callback = response.Type
	s.broadcast()
	return nil, nil
}

func (s *Server) respond(i *interaction, kind int, d *draft) error {
	if s.channels[i.Channel] == nil {
		return UnknownChannel // removed meanwhile
	}
	forComponents := kind == deferredUpdate || kind == withUpdate
	switch {
	case kind == withMessage && d.empty():
		return EmptyMessage
	case kind == withMessage:
		i.original = s.answerWith(i, d)
	case kind == deferred:
		thinking := d.flags()&ephemeralFlag | loadingFlag
		i.original = s.answerWith(i, &draft{Flags: &thinking})
	case forComponents && i.component == nil:
		return invalid("type", "INTERACTION_CALLBACK_TYPE", "Type %d answers components only.", kind)
	case kind == deferredUpdate:
		i.original = i.component
	case kind == withUpdate:
		i.original = i.component
		return s.update(i.component, d)
	default:
		return invalid("type", "BASE_TYPE_CHOICES", "Value must be one of (4, 5, 6, 7).")
	}
	return nil
}

// answerWith creates the message that answers an interaction. A message that only the asker
// sees is in no channel, and no event is sent for it.
func (s *Server) answerWith(i *interaction, d *draft) *Message {
	c := s.channels[i.Channel]
	m := &Message{Author: Bot, Interaction: i.ID, Asker: i.User.ID, Flags: d.flags(), Files: d.files}
	m.Embeds, m.Components = present(d.Embeds), present(d.Components)
	if i.component == nil && i.original == nil {
		m.Type = chatInputCommand
	}
	v := d.version(false)
	v.At = s.now()
	m.setVersion(v)
	if !m.Ephemeral() {
		s.post(c, m)
		return m
	}
	m.ID, m.At, m.Channel, m.Guild = s.newID(), v.At, c.ID, c.Guild
	s.publish(m)
	s.messages[m.ID] = m
	s.sent = append(s.sent, m)
	return m
}

// update edits a message of an interaction.
func (s *Server) update(m *Message, d *draft) error {
	if err := s.revise(m, d); err != nil {
		return err
	}
	s.dispatchMessage("MESSAGE_UPDATE", m)
	return nil
}
