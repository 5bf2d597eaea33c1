package discordtest

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// wireMessage is a message as the API and the gateway carry it.
// https://discord.com/developers/docs/resources/message#message-object
type wireMessage struct {
	ID                string           `json:"id"`
	ChannelID         string           `json:"channel_id"`
	GuildID           string           `json:"guild_id,omitempty"` // on the gateway only
	Author            User             `json:"author"`
	Member            *wireMember      `json:"member,omitempty"` // on the gateway only
	Content           string           `json:"content"`
	Timestamp         string           `json:"timestamp"`
	EditedTimestamp   *string          `json:"edited_timestamp"`
	TTS               bool             `json:"tts"`
	MentionEveryone   bool             `json:"mention_everyone"`
	Mentions          []User           `json:"mentions"`
	MentionRoles      []string         `json:"mention_roles"`
	Attachments       []wireAttachment `json:"attachments"`
	Embeds            json.RawMessage  `json:"embeds"`
	Components        json.RawMessage  `json:"components"`
	Nonce             string           `json:"nonce,omitempty"`
	Pinned            bool             `json:"pinned"`
	WebhookID         string           `json:"webhook_id,omitempty"`
	ApplicationID     string           `json:"application_id,omitempty"`
	Type              int              `json:"type"`
	Flags             int              `json:"flags"`
	MessageReference  *wireReference   `json:"message_reference,omitempty"`
	ReferencedMessage *wireMessage     `json:"referenced_message,omitempty"`
	MessageSnapshots  []wireSnapshot   `json:"message_snapshots,omitempty"`
	Thread            *wireChannel     `json:"thread,omitempty"`
}

type wireReference struct {
	Type      int    `json:"type"`
	MessageID string `json:"message_id,omitempty"`
	ChannelID string `json:"channel_id"`
	GuildID   string `json:"guild_id,omitempty"`
}

// wireSnapshot is a forwarded message as it was when it was forwarded:
// https://discord.com/developers/docs/resources/message#message-snapshot-object
type wireSnapshot struct {
	Message wireForwarded `json:"message"`
}

type wireForwarded struct {
	Type         int              `json:"type"`
	Content      string           `json:"content"`
	Timestamp    string           `json:"timestamp"`
	Mentions     []User           `json:"mentions"`
	MentionRoles []string         `json:"mention_roles"`
	Attachments  []wireAttachment `json:"attachments"`
	Embeds       json.RawMessage  `json:"embeds"`
	Components   json.RawMessage  `json:"components"`
	Flags        int              `json:"flags"`
}

type wireAttachment struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	Size        int    `json:"size"`
	URL         string `json:"url"`
	ProxyURL    string `json:"proxy_url"`
	ContentType string `json:"content_type,omitempty"`
}

// wire is the message as REST answers it to an application that may, or may
// not, read what people write.
func (s *Server) wire(m *Message, readable bool) wireMessage {
	w := wireMessage{
		ID: m.ID, ChannelID: m.Channel, Author: m.Author, Content: m.Content, Timestamp: timestamp(m.At),
		MentionEveryone: m.Pinged.Everyone, Mentions: s.wireUsers(m), MentionRoles: orEmpty(m.Pinged.Roles),
		Attachments: m.wireAttachments(), Embeds: orList(m.Embeds), Components: orList(m.Components),
		Nonce: m.Nonce, Type: m.Type, Flags: m.Flags,
	}
	if n := len(m.Versions); n > 1 {
		edited := timestamp(m.Versions[n-1].At)
		w.EditedTimestamp = &edited
	}
	if m.Interaction != "" {
		w.WebhookID, w.ApplicationID = ApplicationID, ApplicationID
	}
	if m.Author.ID == Bot.ID {
		w.ApplicationID = ApplicationID
	}
	if thread := s.channels[m.thread]; m.thread != "" && thread != nil {
		t := s.wireChannel(thread)
		w.Thread = &t
	}
	s.refer(&w, m, readable)
	s.forward(&w, m)
	if !readable && !s.alwaysReadable(m) {
		w.Content, w.Attachments = "", []wireAttachment{}
		w.Embeds, w.Components, w.MessageSnapshots = orList(nil), orList(nil), nil
	}
	return w
}

// refer adds the message that m replies to or begins a thread of.
func (s *Server) refer(w *wireMessage, m *Message, readable bool) {
	if m.ReplyTo == "" {
		return
	}
	w.MessageReference = &wireReference{MessageID: m.ReplyTo, ChannelID: m.Channel, GuildID: m.Guild}
	to := s.messages[m.ReplyTo]
	if to == nil || to.Deleted {
		return
	}
	w.MessageReference.ChannelID = to.Channel
	inner := *to
	inner.ReplyTo = "" // a reference is not followed twice
	referenced := s.wire(&inner, readable)
	w.ReferencedMessage = &referenced
}

// forward adds the message that m forwards.
func (s *Server) forward(w *wireMessage, m *Message) {
	of := s.messages[m.Forward]
	if m.Forward == "" || of == nil {
		return
	}
	w.MessageReference = &wireReference{Type: 1, MessageID: of.ID, ChannelID: of.Channel, GuildID: of.Guild}
	w.MessageSnapshots = []wireSnapshot{{Message: wireForwarded{
		Type: of.Type, Content: of.Content, Timestamp: timestamp(of.At), Mentions: s.wireUsers(of), MentionRoles: orEmpty(of.Pinged.Roles),
		Attachments: of.wireAttachments(), Embeds: orList(of.Embeds), Components: orList(of.Components), Flags: of.Flags,
	}}}
}

// alwaysReadable tells what the bot reads without the Message Content intent:
// https://discord.com/developers/docs/events/gateway#message-content-intent
func (s *Server) alwaysReadable(m *Message) bool {
	if m.Guild == "" || m.Author.ID == Bot.ID {
		return true
	}
	return slices.Contains(s.wireUsers(m), Bot)
}

// wireUsers are the users whom a message mentions, with the author of the
// message that it replies to.
func (s *Server) wireUsers(m *Message) []User {
	users := []User{}
	for _, id := range m.Pinged.Users {
		if u := s.users[id]; u != nil {
			users = append(users, *u)
		}
	}
	if to := s.messages[m.ReplyTo]; m.Pinged.RepliedUser && to != nil && !slices.Contains(users, to.Author) {
		users = append(users, to.Author)
	}
	return users
}

func (m *Message) wireAttachments() []wireAttachment {
	list := []wireAttachment{}
	for _, f := range m.Files {
		size := len(f.Data)
		if f.ClaimedSize != 0 {
			size = f.ClaimedSize
		}
		list = append(list, wireAttachment{
			ID: f.id, Filename: f.Name, Size: size, ContentType: f.ContentType, URL: f.URL,
			ProxyURL: "https://" + proxyHost + pathOf(f.URL),
		})
	}
	return list
}

// wireMember is a member of a guild:
// https://discord.com/developers/docs/resources/guild#guild-member-object
type wireMember struct {
	User        *User    `json:"user,omitempty"`
	Nick        *string  `json:"nick"`
	Roles       []string `json:"roles"`
	JoinedAt    string   `json:"joined_at"`
	Deaf        bool     `json:"deaf"`
	Mute        bool     `json:"mute"`
	Flags       int      `json:"flags"`
	Permissions string   `json:"permissions,omitempty"` // in interactions only
}

func (m *member) wire() *wireMember {
	return &wireMember{Roles: orEmpty(m.roles), JoinedAt: timestamp(time.UnixMilli(epoch))}
}

func (m *member) wireWithUser() *wireMember {
	w := m.wire()
	w.User = m.user
	return w
}

// wireChannel is a channel:
// https://discord.com/developers/docs/resources/channel#channel-object
type wireChannel struct {
	ID            string            `json:"id"`
	Type          int               `json:"type"`
	GuildID       string            `json:"guild_id,omitempty"`
	ParentID      string            `json:"parent_id,omitempty"`
	Name          string            `json:"name,omitempty"`
	Position      int               `json:"position"`
	LastMessageID *string           `json:"last_message_id"`
	Overwrites    []overwrite       `json:"permission_overwrites,omitempty"`
	Recipients    []User            `json:"recipients,omitempty"`
	OwnerID       string            `json:"owner_id,omitempty"`
	Metadata      *threadMetadata   `json:"thread_metadata,omitempty"`
	Member        *wireThreadMember `json:"member,omitempty"` // the bot's
	MessageCount  *int              `json:"message_count,omitempty"`
	MemberCount   *int              `json:"member_count,omitempty"`
	NewlyCreated  bool              `json:"newly_created,omitempty"`
}

type overwrite struct {
	ID    string `json:"id"`
	Type  int    `json:"type"`
	Allow string `json:"allow"`
	Deny  string `json:"deny"`
}

type threadMetadata struct {
	Archived            bool   `json:"archived"`
	AutoArchiveDuration int    `json:"auto_archive_duration"`
	ArchiveTimestamp    string `json:"archive_timestamp"`
	Locked              bool   `json:"locked"`
}

type wireThreadMember struct {
	ID            string `json:"id"`
	UserID        string `json:"user_id"`
	JoinTimestamp string `json:"join_timestamp"`
	Flags         int    `json:"flags"`
}

func (s *Server) wireChannel(c *channel) wireChannel {
	w := wireChannel{ID: c.ID, Type: c.Type, GuildID: c.Guild, ParentID: c.Parent, Name: c.Name}
	if n := len(c.messages); n > 0 {
		last := c.messages[n-1].ID
		w.LastMessageID = &last
	}
	if c.recipient != nil {
		w.Recipients = []User{*c.recipient}
	}
	if c.denied != 0 {
		w.Overwrites = []overwrite{{ID: Bot.ID, Type: 1, Allow: "0", Deny: strconv.FormatInt(int64(c.denied), 10)}}
	}
	if !c.IsThread() {
		return w
	}
	messages, members := len(c.messages), min(len(c.members), 50)
	w.OwnerID, w.MessageCount, w.MemberCount = c.owner, &messages, &members
	w.Metadata = &threadMetadata{c.archived, 4320, timestamp(c.born()), c.locked}
	if c.members[Bot.ID] {
		w.Member = &wireThreadMember{ID: c.ID, UserID: Bot.ID, JoinTimestamp: timestamp(c.born())}
	}
	return w
}

// born is when the channel was made, as its id tells.
func (c *channel) born() time.Time { return time.UnixMilli(int64(number(c.ID)>>22) + epoch) }

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000+00:00") }

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func orList(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("[]")
	}
	return raw
}
