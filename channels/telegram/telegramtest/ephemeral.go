package telegramtest

import (
	"encoding/json"
	"net/http"
	"slices"
)

// ephemeral is the place of a message that one person sees, beside the bot.
type ephemeral struct{ chat, user int64 }

// setReceiver reads ephemeral_message_parameters. A bot that is no administrator may
// answer a press or an ephemeral message of the receiver:
// https://core.telegram.org/bots/api#ephemeral-messages-and-commands
func (s *Server) setReceiver(m *Message, p map[string]string) Verdict {
	raw := p["ephemeral_message_parameters"]
	if raw == "" {
		return Verdict{}
	}
	var to struct {
		User  int64  `json:"receiver_user_id"`
		Press string `json:"callback_query_id"`
	}
	var reply struct {
		ID int64 `json:"ephemeral_message_id"`
	}
	switch err := json.Unmarshal([]byte(raw), &to); {
	case err != nil || to.User == 0:
		return bad("can't parse ephemeral message parameters JSON object")
	case m.Chat > 0:
		return bad("ephemeral messages can be sent only in groups")
	}
	if r := p["reply_parameters"]; r != "" && json.Unmarshal([]byte(r), &reply) != nil {
		return bad("can't parse reply parameters JSON object")
	}
	if s.ephemeral[reply.ID] != (ephemeral{m.Chat, to.User}) && s.pressedBy[to.Press] != to.User {
		return bad("not enough rights to send the ephemeral message")
	}
	m.For = to.User
	return Verdict{}
}

// editEphemeralMessageText changes an ephemeral message of the bot.
func (s *Server) editEphemeralMessageText(w http.ResponseWriter, p map[string]string) {
	m, v := parseMessage(p)
	if v.passes() {
		m.Buttons, v = readKeyboard(p["reply_markup"])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, user := integer(p, "ephemeral_message_id", 0), integer(p, "receiver_user_id", 0)
	i := slices.IndexFunc(s.sent, func(old Message) bool { return old.ID == id && old.For == user && old.Chat == m.Chat && user != 0 })
	if v.passes() && i < 0 {
		v = bad("message to edit not found")
	}
	if !v.passes() {
		refuse(w, v)
		return
	}
	s.sent[i].Text, s.sent[i].Entities, s.sent[i].Source, s.sent[i].Buttons = m.Text, m.Entities, m.Source, m.Buttons
	s.sent[i].Edits++
	s.changed.Broadcast()
	answer(w, true)
}
