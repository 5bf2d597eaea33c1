package telegramtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Limits of inline keyboards: https://core.telegram.org/bots/api#inlinekeyboardbutton
const (
	maxCallbackData = 64 // bytes
	maxButtons      = 100
)

// Button is one below a message of the bot.
type Button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// readKeyboard reads reply_markup, which may be missing.
func readKeyboard(raw string) ([]Button, Verdict) {
	if raw == "" {
		return nil, Verdict{}
	}
	var markup struct {
		Rows [][]Button `json:"inline_keyboard"`
	}
	if err := json.Unmarshal([]byte(raw), &markup); err != nil {
		return nil, bad("can't parse reply keyboard markup JSON object")
	}
	buttons := slices.Concat(markup.Rows...)
	for _, b := range buttons {
		switch {
		case b.Text == "":
			return nil, bad("text buttons are unallowed in the inline keyboard")
		case len(b.Data) > maxCallbackData:
			return nil, bad("BUTTON_DATA_INVALID")
		}
	}
	if len(buttons) > maxButtons {
		return nil, bad("reply markup is too long")
	}
	return buttons, Verdict{}
}

// Press presses the button with a text below a message of the bot. It panics when
// there is none.
func (s *Server) Press(from User, messageID int64, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.sent {
		for _, b := range m.Buttons {
			if m.ID == messageID && b.Text == text {
				at := map[string]any{"message_id": m.ID, "date": m.At.Unix(), "from": s.Bot, "chat": map[string]any{"id": m.Chat}, "text": m.Text}
				if m.Topic != 0 {
					at["message_thread_id"], at["is_topic_message"] = m.Topic, true
				}
				if m.For != 0 {
					at["message_id"], at["ephemeral_message_id"] = 0, m.ID
				}
				s.press(from, at, b.Data)
				return
			}
		}
	}
	panic(fmt.Sprintf("telegramtest: message %d has no button %q", messageID, text))
}

// PressOld presses a button of a message that is too old for the server to tell more
// than where it is.
func (s *Server) PressOld(from User, chat Chat, messageID int64, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.press(from, map[string]any{"message_id": messageID, "date": 0, "chat": chat}, data)
}

func (s *Server) press(from User, message map[string]any, data string) {
	s.presses++
	id := fmt.Sprintf("press-%d", s.presses)
	s.unconfirmed[id], s.pressedBy[id] = true, from.ID
	s.enqueue("callback_query", map[string]any{"id": id, "from": from, "message": message, "chat_instance": "1", "data": data}, nil)
}

func (s *Server) answerCallbackQuery(w http.ResponseWriter, p map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unconfirmed[p["callback_query_id"]] {
		refuse(w, bad("query is too old and response timeout expired or query ID is invalid"))
		return
	}
	delete(s.unconfirmed, p["callback_query_id"])
	answer(w, true)
}

// editMessageText changes a message that the bot has sent, at the same rate as new
// ones: https://core.telegram.org/bots/api#editmessagetext
func (s *Server) editMessageText(w http.ResponseWriter, p map[string]string) {
	m, v := parseMessage(p)
	if p["rich_message"] != "" {
		m, v = parseRich(p)
	}
	if v.passes() {
		m.Buttons, v = readKeyboard(p["reply_markup"])
	}
	if v.passes() {
		v = s.edit(m, integer(p, "message_id", 0))
	}
	if !v.passes() {
		refuse(w, v)
		return
	}
	s.mu.Lock()
	edited := s.edited
	s.mu.Unlock()
	if edited != nil {
		edited(m)
	}
	answer(w, map[string]any{"message_id": integer(p, "message_id", 0), "date": time.Now().Unix(), "chat": map[string]any{"id": m.Chat}, "text": m.Text})
}

func (s *Server) edit(m Message, id int64) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, v := s.place(m.Chat, 0)
	if v.passes() {
		v = s.limited(c)
	}
	if !v.passes() {
		return v
	}
	i := slices.IndexFunc(s.sent, func(old Message) bool { return old.Chat == m.Chat && old.ID == id })
	switch {
	case i < 0:
		return bad("message to edit not found")
	case s.sent[i].Document != nil:
		return bad("there is no text in the message to edit")
	case s.sent[i].Text == m.Text && s.sent[i].Rich == m.Rich && slices.Equal(s.sent[i].Buttons, m.Buttons):
		return bad("message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message")
	}
	s.sent[i].Text, s.sent[i].Entities, s.sent[i].Source, s.sent[i].HTML, s.sent[i].Buttons = m.Text, m.Entities, m.Source, m.HTML, m.Buttons
	s.sent[i].Rich = m.Rich
	s.sent[i].Edits++
	s.changed.Broadcast()
	return Verdict{}
}

// deleteMessage deletes a message of the bot: https://core.telegram.org/bots/api#deletemessage
func (s *Server) deleteMessage(w http.ResponseWriter, p map[string]string) {
	chat, id := integer(p, "chat_id", 0), integer(p, "message_id", 0)
	if !slices.ContainsFunc(s.SentTo(chat), func(m Message) bool { return m.ID == id }) {
		refuse(w, bad("message to delete not found"))
		return
	}
	s.Delete(chat, id)
	answer(w, true)
}

// Delete deletes a message that the bot has sent.
func (s *Server) Delete(chat, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = slices.DeleteFunc(s.sent, func(m Message) bool { return m.Chat == chat && m.ID == id })
}

// SetMember tells the bot that somebody has added it to a group, or removed it.
func (s *Server) SetMember(group Chat, by User, isIn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chatFor(group)
	status := map[bool]string{true: "member", false: "left"}
	member := func(isIn bool) map[string]any { return map[string]any{"user": s.Bot, "status": status[isIn]} }
	s.enqueue("my_chat_member", map[string]any{
		"chat": group, "from": by, "date": time.Now().Unix(), "old_chat_member": member(!isIn), "new_chat_member": member(isIn),
	}, nil)
}
