package telegramtest

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf16"
)

// inMessage is a message as an update carries it.
type inMessage struct {
	MessageID       int64           `json:"message_id"`
	MessageThreadID int64           `json:"message_thread_id,omitempty"`
	IsTopicMessage  bool            `json:"is_topic_message,omitempty"`
	From            *User           `json:"from,omitempty"`
	SenderChat      *Chat           `json:"sender_chat,omitempty"`
	Chat            Chat            `json:"chat"`
	Date            int64           `json:"date"`
	ReplyTo         json.RawMessage `json:"reply_to_message,omitempty"`
	Text            string          `json:"text,omitempty"`
	Entities        []Entity        `json:"entities,omitempty"`
	EphemeralID     int64           `json:"ephemeral_message_id,omitempty"`
	Caption         string          `json:"caption,omitempty"`
	CaptionEntities []Entity        `json:"caption_entities,omitempty"`
}

// Option changes a message before it is said.
type Option func(s *Server, m *inMessage, extra map[string]any)

// InTopic says it in a topic of a forum, which is made when there is none. Like all
// that is no other reply there, it replies to the message that opened the topic.
func InTopic(topic int64) Option {
	return func(s *Server, m *inMessage, extra map[string]any) {
		m.MessageThreadID, m.IsTopicMessage = topic, true
		c := s.chatFor(m.Chat)
		c.topics[topic] = true
		if name := c.topicNames[topic]; name != "" && m.ReplyTo == nil {
			opened := inMessage{MessageID: topic, MessageThreadID: topic, IsTopicMessage: true, From: m.From, Chat: m.Chat, Date: m.Date}
			m.ReplyTo = mustJSON(opened, map[string]any{"forum_topic_created": map[string]any{"name": name, "icon_color": 1}})
		}
	}
}

// ReplyTo makes it a reply to a message of the same chat. In a group without
// topics the reply gets a thread id, as from the real server.
func ReplyTo(message int64) Option {
	return func(s *Server, m *inMessage, _ map[string]any) {
		m.ReplyTo = s.chatFor(m.Chat).said[message]
		if m.Chat.Type == "supergroup" && !m.IsTopicMessage {
			m.MessageThreadID = message
		}
	}
}

// At sets when it was written.
func At(t time.Time) Option {
	return func(_ *Server, m *inMessage, _ map[string]any) { m.Date = t.Unix() }
}

// WithEntities adds entities to those that the server finds by itself.
func WithEntities(entities ...Entity) Option {
	return func(_ *Server, m *inMessage, _ map[string]any) { m.Entities = append(m.Entities, entities...) }
}

// Anonymously says it in the name of the group, as its administrators may.
func Anonymously() Option {
	return func(_ *Server, m *inMessage, _ map[string]any) {
		m.From = &User{ID: 1087968824, IsBot: true, FirstName: "Group", Username: "GroupAnonymousBot"}
		m.SenderChat = &m.Chat
	}
}

// Alone says it so that nobody but the bot sees it, as people send commands that are
// ephemeral. Said.MessageID is 0 then.
func Alone() Option {
	return func(s *Server, m *inMessage, _ map[string]any) {
		s.lastEphemeral++
		m.MessageID, m.EphemeralID = 0, s.lastEphemeral
		s.ephemeral[m.EphemeralID] = ephemeral{m.Chat.ID, m.From.ID}
	}
}

// ForwardedFrom says it as the words of somebody else.
func ForwardedFrom(who User) Option {
	return With("forward_origin", map[string]any{"type": "user", "date": 1, "sender_user": who})
}

// Quoting says it as a reply with a part of the other message that the sender has
// chosen.
func Quoting(text string) Option {
	return With("quote", map[string]any{"text": text, "position": 0, "is_manual": true})
}

// InAlbum says it as a part of an album: messages that were sent as one.
func InAlbum(id string) Option { return With("media_group_id", id) }

// Edit makes an update of a change of a message that a person wrote, at a time.
func (s *Server) Edit(chat Chat, from User, message int64, text string, at time.Time, opts ...Option) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chatFor(chat)
	m := inMessage{MessageID: message, From: &from, Chat: chat, Date: at.Unix() - 1, Text: text, Entities: findEntities(text)}
	extra := map[string]any{"edit_date": at.Unix()}
	for _, opt := range opts {
		opt(s, &m, extra)
	}
	m.captioned(extra)
	c.remember(m, extra)
	for _, other := range s.others(chat) {
		other.enqueue("edited_message", m, extra)
	}
	s.enqueue("edited_message", m, extra)
}

// With adds a field of the Bot API's Message, such as a "sticker". With a
// "photo" and the like, the text becomes the caption.
func With(field string, value any) Option {
	return func(_ *Server, _ *inMessage, extra map[string]any) { extra[field] = value }
}

// Say makes an update of a message that a person wrote. Mentions by username
// and commands in the text get their entities.
func (s *Server) Say(chat Chat, from User, text string, opts ...Option) Said {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chatFor(chat)
	c.last++
	m := inMessage{
		MessageID: c.last, From: &from, Chat: chat, Date: time.Now().Unix(),
		Text: text, Entities: findEntities(text),
	}
	extra := map[string]any{}
	for _, opt := range opts {
		opt(s, &m, extra)
	}
	m.captioned(extra)
	c.remember(m, extra)
	for _, other := range s.others(chat) {
		other.enqueue("message", m, extra)
	}
	return Said{m.MessageID, s.enqueue("message", m, extra)}
}

// captioned makes the text of a message with a file its caption.
func (m *inMessage) captioned(extra map[string]any) {
	for _, media := range []string{"photo", "video", "document", "voice", "animation", "audio"} {
		if extra[media] != nil && m.Text != "" {
			m.Caption, m.CaptionEntities, m.Text, m.Entities = m.Text, m.Entities, "", nil
		}
	}
}

// remember keeps a message for the replies to it, which hold it without what it
// replies to itself.
func (c *chat) remember(m inMessage, extra map[string]any) {
	c.authors[m.MessageID] = *m.From
	m.ReplyTo = nil
	c.said[m.MessageID] = mustJSON(m, extra)
}

func mustJSON(payload any, extra map[string]any) json.RawMessage {
	raw, err := json.Marshal(payload)
	if err == nil && len(extra) > 0 {
		raw, err = addFields(raw, extra)
	}
	if err != nil {
		panic(err) // a test gave a value that JSON does not have
	}
	return raw
}

// enqueue appends an update with a payload of a type of the Bot API's Update.
func (s *Server) enqueue(kind string, payload any, extra map[string]any) int64 {
	return s.push(kind, mustJSON(payload, extra))
}

func addFields(raw []byte, extra map[string]any) ([]byte, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for name, value := range extra {
		fields[name] = value
	}
	return json.Marshal(fields)
}

// findEntities finds mentions at usernames and commands, as the real server does.
func findEntities(text string) []Entity {
	var found []Entity
	for pos := 0; pos < len(text); {
		i := strings.IndexAny(text[pos:], "@/")
		if i < 0 {
			break
		}
		start := pos + i
		pos = start + 1
		if start > 0 && isWord(text[start-1]) {
			continue
		}
		kind, stop := "mention", func(b byte) bool { return !isWord(b) }
		if text[start] == '/' {
			kind, stop = "bot_command", func(b byte) bool { return !isWord(b) && b != '@' }
		}
		for pos < len(text) && !stop(text[pos]) {
			pos++
		}
		if pos > start+1 {
			found = append(found, Entity{Type: kind, Offset: units(text[:start]), Length: units(text[start:pos])})
		}
	}
	return found
}

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// units is the length of text in UTF-16 code units.
func units(text string) int { return len(utf16.Encode([]rune(text))) }
