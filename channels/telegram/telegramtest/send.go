package telegramtest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// Limits of sendMessage: https://core.telegram.org/bots/api#sendmessage
const (
	maxUnits  = 4096    // UTF-16 code units after entities parsing
	maxSource = 1 << 15 // bytes before

	// Not documented: further entities are dropped, see https://github.com/rubenlagus/TelegramBots/issues/854,
	// and so many bytes of them refused, see https://github.com/tdlib/telegram-bot-api/issues/165.
	maxEntities = 100
	maxTags     = 9000
)

func (s *Server) sendMessage(w http.ResponseWriter, p map[string]string) {
	m, v := parseMessage(p)
	s.send(w, p, m, v)
}

// send takes a message that parsed, or refuses it with the verdict.
func (s *Server) send(w http.ResponseWriter, p map[string]string, m Message, v Verdict) {
	if v.passes() {
		m.Buttons, v = readKeyboard(p["reply_markup"])
	}
	if v.passes() {
		v = s.check(&m, p)
	}
	if v.passes() {
		v = s.ask(s.beforeHook(), m)
	}
	if !v.passes() {
		refuse(w, v)
		return
	}
	after := s.take(&m)
	if v := s.ask(after, m); !v.passes() {
		refuse(w, v)
		return
	}
	id := "message_id"
	if m.For != 0 {
		id = "ephemeral_message_id"
	}
	raw, err := json.Marshal(map[string]any{
		id: m.ID, "date": m.At.Unix(), "from": s.Bot, "chat": map[string]any{"id": m.Chat}, "text": m.Text,
	})
	if err != nil {
		refuse(w, Verdict{Code: 500})
		return
	}
	answerRaw(w, raw)
}

func (s *Server) beforeHook() func(Message) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before
}

func (s *Server) ask(hook func(Message) Verdict, m Message) Verdict {
	if hook == nil {
		return Verdict{}
	}
	return hook(m)
}

// take records the message, and returns what is asked afterwards.
func (s *Server) take(m *Message) func(Message) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[m.Chat]
	if m.For != 0 {
		s.lastEphemeral++
		m.ID, m.At = s.lastEphemeral, time.Now()
		s.ephemeral[m.ID] = ephemeral{m.Chat, m.For}
		s.sent = append(s.sent, *m)
		s.changed.Broadcast()
		return s.after
	}
	c.last++
	c.remember(inMessage{MessageID: c.last, From: &s.Bot, Chat: Chat{ID: m.Chat}, Date: time.Now().Unix(), Text: m.Text}, nil)
	m.ID, m.At = c.last, time.Now()
	s.sent = append(s.sent, *m)
	delete(s.drafts, m.Chat)
	s.changed.Broadcast()
	return s.after
}

func bad(description string) Verdict { return Verdict{Code: 400, Description: description} }

// parseMessage reads what does not depend on the chat.
func parseMessage(p map[string]string) (Message, Verdict) {
	m, v := parseText(p, p["text"])
	switch {
	case !v.passes():
		return m, v
	case m.Text == "":
		return m, bad("message text is empty")
	case units(m.Text) > maxUnits:
		return m, bad("message is too long")
	}
	return m, v
}

// parseText reads what messages have in common, and their text.
func parseText(p map[string]string, text string) (Message, Verdict) {
	m := Message{Source: text, Text: text, HTML: strings.EqualFold(p["parse_mode"], "HTML")}
	switch {
	case p["chat_id"] == "":
		return m, bad("chat_id is empty")
	case !m.HTML && p["parse_mode"] != "":
		return m, bad("unsupported parse_mode")
	case !utf8.ValidString(m.Source):
		return m, bad("strings must be encoded in UTF-8")
	case len(m.Source) > maxSource:
		return m, bad("text is too long")
	}
	m.Chat = integer(p, "chat_id", 0)
	m.Topic = integer(p, "message_thread_id", 0)
	if m.HTML {
		var err error
		if m.Text, m.Entities, err = ParseHTML(m.Source); err != nil {
			return m, bad("can't parse entities: " + err.Error())
		}
		if tagBytes(m.Source) > maxTags {
			return m, bad("ENTITIES_TOO_LONG")
		}
		m.Entities = m.Entities[:min(len(m.Entities), maxEntities)]
	}
	m.Text = strings.TrimSpace(strings.ReplaceAll(m.Text, "\x00", ""))
	return m, Verdict{}
}

// tagBytes returns how many bytes of HTML are tags.
func tagBytes(html string) (n int) {
	for from := strings.IndexByte(html, '<'); from >= 0; from = strings.IndexByte(html, '<') {
		to := from + strings.IndexByte(html[from:], '>') + 1
		n += to - from
		html = html[to:]
	}
	return n
}

// check reads what depends on the chat.
func (s *Server) check(m *Message, p map[string]string) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, v := s.place(m.Chat, m.Topic)
	if !v.passes() {
		return v
	}
	if v := s.limited(c); !v.passes() {
		return v
	}
	if v := s.setReceiver(m, p); !v.passes() || m.For != 0 {
		return v
	}
	return m.setReply(c, p["reply_parameters"])
}

// place is the chat to send to, or why the bot can't.
func (s *Server) place(chatID, topic int64) (*chat, Verdict) {
	c := s.chats[chatID]
	switch {
	case c == nil:
		return nil, bad("chat not found")
	case c.migratedTo != 0:
		return nil, Verdict{Code: 400, MigrateTo: c.migratedTo, Description: "group chat was upgraded to a supergroup chat"}
	case c.blocked != "":
		return nil, Verdict{Code: 403, Description: c.blocked}
	case topic != 0 && c.closed[topic]:
		return nil, bad("TOPIC_CLOSED")
	case topic != 0 && !c.topics[topic]:
		return nil, bad("message thread not found")
	}
	return c, Verdict{}
}

// limited takes the next refusal of the chat, and applies the rates.
func (s *Server) limited(c *chat) Verdict {
	if len(c.refusals) > 0 {
		v := c.refusals[0]
		c.refusals = c.refusals[1:]
		return v
	}
	if c.limiter == nil && s.chatRate > 0 {
		c.limiter = rate.NewLimiter(s.chatRate, max(1, int(s.chatRate)))
	}
	for _, l := range []*rate.Limiter{c.limiter, s.global} {
		if l != nil && !l.Allow() {
			return TooMany(int(math.Ceil(1 / float64(l.Limit()))))
		}
	}
	return Verdict{}
}

// setReply reads reply_parameters.
func (m *Message) setReply(c *chat, raw string) Verdict {
	if raw == "" {
		return Verdict{}
	}
	var reply struct {
		MessageID int64 `json:"message_id"`
		Without   bool  `json:"allow_sending_without_reply"`
	}
	if err := json.Unmarshal([]byte(raw), &reply); err != nil {
		return bad("can't parse reply parameters JSON object")
	}
	_, known := c.authors[reply.MessageID]
	switch {
	case known:
		m.ReplyTo = reply.MessageID
	case !reply.Without:
		return bad("message to be replied not found")
	}
	return Verdict{}
}

func (s *Server) sendChatAction(w http.ResponseWriter, p map[string]string) {
	s.mu.Lock()
	_, v := s.place(integer(p, "chat_id", 0), integer(p, "message_thread_id", 0))
	s.mu.Unlock()
	if v.passes() && p["action"] != "typing" {
		v = bad("wrong parameter action in request")
	}
	if !v.passes() {
		refuse(w, v)
		return
	}
	answer(w, true)
}

// getChatAdministrators lists a group's administrators, but for other bots:
// https://core.telegram.org/bots/api#getchatadministrators
func (s *Server) getChatAdministrators(w http.ResponseWriter, p map[string]string) {
	s.mu.Lock()
	c, v := s.place(integer(p, "chat_id", 0), 0)
	var members []map[string]any
	if v.passes() {
		for _, u := range c.admins {
			members = append(members, map[string]any{"status": "administrator", "user": u, "is_anonymous": false})
		}
	}
	s.mu.Unlock()
	switch {
	case !v.passes():
		refuse(w, v)
	case integer(p, "chat_id", 0) > 0:
		refuse(w, bad("there are no administrators in the private chat"))
	default:
		answer(w, members)
	}
}

// setMyCommands checks names and lengths:
// https://core.telegram.org/bots/api#botcommand
func (s *Server) setMyCommands(w http.ResponseWriter, p map[string]string) {
	var commands []struct{ Command, Description string }
	if err := json.Unmarshal([]byte(p["commands"]), &commands); err != nil {
		refuse(w, bad("can't parse commands JSON object"))
		return
	}
	for _, c := range commands {
		name := strings.Trim(c.Command, "abcdefghijklmnopqrstuvwxyz0123456789_")
		switch {
		case c.Command == "" || len(c.Command) > 32 || name != "":
			refuse(w, bad("BOT_COMMAND_INVALID"))
			return
		case c.Description == "" || utf8.RuneCountInString(c.Description) > 256:
			refuse(w, bad(fmt.Sprintf("BOT_COMMAND_DESCRIPTION_INVALID %s", strconv.Quote(c.Command))))
			return
		}
	}
	s.mu.Lock()
	if p["scope"] != "" {
		s.groupCommands = p["commands"]
	} else {
		s.commands = p["commands"]
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	answer(w, true)
}
