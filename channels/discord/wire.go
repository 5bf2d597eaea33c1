package discord

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"parley/plaintext"
)

// The part of Discord's objects that the adapter reads. The library's own types
// refuse a whole message for one component that they don't know, even when it
// is in a message that this one only replies to.
type (
	// message: https://discord.com/developers/docs/resources/message#message-object
	message struct {
		ID           string       `json:"id"`
		ChannelID    string       `json:"channel_id"`
		GuildID      string       `json:"guild_id"`
		Author       user         `json:"author"`
		Member       *member      `json:"member"`
		Content      string       `json:"content"`
		Edited       string       `json:"edited_timestamp"`
		Mentions     []user       `json:"mentions"`
		MentionRoles []string     `json:"mention_roles"`
		Attachments  []attachment `json:"attachments"`
		Type         int          `json:"type"`
		WebhookID    string       `json:"webhook_id"`
		Reference    *reference   `json:"message_reference"`
		Referenced   *message     `json:"referenced_message"`
		Snapshots    []snapshot   `json:"message_snapshots"` // of what is forwarded
		Stickers     []named      `json:"sticker_items"`
		Poll         *poll        `json:"poll"`
		Embeds       []embed      `json:"embeds"`
	}

	reference struct {
		Type      int    `json:"type"`
		MessageID string `json:"message_id"`
	}

	snapshot struct {
		Message message `json:"message"`
	}

	named struct {
		Name string `json:"name"`
	}

	// poll: https://discord.com/developers/docs/resources/poll#poll-object
	poll struct {
		Question pollText `json:"question"`
		Answers  []struct {
			ID    int      `json:"answer_id"`
			Media pollText `json:"poll_media"`
		} `json:"answers"`
		Results struct {
			Final  bool `json:"is_finalized"`
			Counts []struct {
				Answer int `json:"id"`
				Count  int `json:"count"`
			} `json:"answer_counts"`
		} `json:"results"`
	}

	pollText struct {
		Text  string `json:"text"`
		Emoji named  `json:"emoji"`
	}

	// embed is a card below a message: of a bot, or the preview of a link:
	// https://discord.com/developers/docs/resources/message#embed-object
	embed struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		URL         string `json:"url"`
		Author      named  `json:"author"`
		Fields      []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"fields"`
		Footer struct {
			Text string `json:"text"`
		} `json:"footer"`
	}

	attachment struct {
		ID          string `json:"id"`
		Filename    string `json:"filename"`
		ContentType string `json:"content_type"`
		Size        int64  `json:"size"`
		URL         string `json:"url"`
	}

	user struct {
		ID         string `json:"id"`
		Username   string `json:"username"`
		GlobalName string `json:"global_name"`
		Bot        bool   `json:"bot"`
	}

	member struct {
		User  *user    `json:"user"`
		Nick  string   `json:"nick"`
		Roles []string `json:"roles"`
	}

	// channel: https://discord.com/developers/docs/resources/channel#channel-object
	channel struct {
		ID            string `json:"id"`
		Type          int    `json:"type"`
		GuildID       string `json:"guild_id"`
		ParentID      string `json:"parent_id"`
		Name          string `json:"name"`
		OwnerID       string `json:"owner_id"`
		LastMessageID string `json:"last_message_id"`
	}

	// guild: https://discord.com/developers/docs/events/gateway-events#guild-create
	guild struct {
		ID          string    `json:"id"`
		Name        string    `json:"name"`
		Unavailable bool      `json:"unavailable"`
		Channels    []channel `json:"channels"`
		Threads     []channel `json:"threads"`
		Roles       []role    `json:"roles"`
		Members     []member  `json:"members"` // the bot is among them
		JoinedAt    string    `json:"joined_at"`
		Owner       string    `json:"owner_id"`
		System      string    `json:"system_channel_id"` // ID of the channel in which Discord welcomes newcomers
	}

	role struct {
		ID          string `json:"id"`
		Name        string `json:"name"`
		Permissions string `json:"permissions"`
		Tags        struct {
			BotID string `json:"bot_id"`
		} `json:"tags"`
	}

	ready struct {
		User        user `json:"user"`
		Application struct {
			ID string `json:"id"`
		} `json:"application"`
		Guilds []guild `json:"guilds"`
	}

	// whereabouts is what every event of a place has.
	whereabouts struct {
		ID        string   `json:"id"`
		ChannelID string   `json:"channel_id"`
		GuildID   string   `json:"guild_id"`
		Channel   *channel `json:"channel"` // only in interactions
	}

	threadList struct {
		GuildID string    `json:"guild_id"`
		Threads []channel `json:"threads"`
	}

	// bulk is of several deletions at once.
	bulk struct {
		IDs []string `json:"ids"`
	}

	// interaction: https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object
	interaction struct {
		ID            string   `json:"id"`
		ApplicationID string   `json:"application_id"`
		Type          int      `json:"type"`
		Token         string   `json:"token"`
		ChannelID     string   `json:"channel_id"`
		Channel       *channel `json:"channel"`
		GuildID       string   `json:"guild_id"`
		Member        *member  `json:"member"`
		User          *user    `json:"user"`
		Message       *struct {
			Flags int `json:"flags"`
		} `json:"message"` // the message whose button was pressed
		Data struct {
			Name     string   `json:"name"`
			CustomID string   `json:"custom_id"`
			Options  []option `json:"options"`
		} `json:"data"`
	}

	option struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	}
)

// Types of messages that people write; the others are Discord's own.
// https://discord.com/developers/docs/resources/message#message-object-message-types
const (
	typeDefault = 0
	typeReply   = 19
)

// forwardReference is a reference to a message that is forwarded:
// https://discord.com/developers/docs/resources/message#message-reference-types
const forwardReference = 1

// Types of channels: https://discord.com/developers/docs/resources/channel#channel-object-channel-types
const (
	typeText               = 0
	typeDM                 = 1
	typeAnnouncement       = 5
	typeAnnouncementThread = 10
	typePublicThread       = 11
	typePrivateThread      = 12
	typeForum              = 15
	typeMedia              = 16
)

// isWritten reports whether a person or a bot wrote the message, and not Discord
// itself.
func (m *message) isWritten() bool { return m.Type == typeDefault || m.Type == typeReply }

// author returns who wrote the message: its webhook, if it came through one.
func (m *message) author() user {
	u := m.Author
	if m.WebhookID != "" {
		u.ID, u.Bot = m.WebhookID, true
	}
	return u
}

// byID orders messages as they were written.
func byID(a, b message) int { return cmp.Compare(number(a.ID), number(b.ID)) }

// isSecondHand reports whether no person wrote the text for this place: it was
// forwarded, or comes from another bot or a webhook.
func (m *message) isSecondHand() bool {
	return len(m.Snapshots) > 0 || m.Reference != nil && m.Reference.Type == forwardReference || m.author().Bot
}

func (m *message) mentions(id string) bool {
	return slices.ContainsFunc(m.Mentions, func(u user) bool { return u.ID == id })
}

func (m *message) repliesTo(id string) bool {
	return m.Type == typeReply && m.Referenced != nil && m.Referenced.Author.ID == id
}

// editedAt returns when the author edited the message last, zero for never.
func (m *message) editedAt() time.Time {
	at, err := time.Parse(time.RFC3339Nano, m.Edited)
	if err != nil {
		return time.Time{}
	}
	return at
}

// shown returns the name that others in the place see.
func (u user) shown(m *member) string {
	nick := ""
	if m != nil {
		nick = m.Nick
	}
	for _, text := range []string{nick, u.GlobalName, u.Username} {
		if text = plaintext.Name(text); text != "" {
			return text
		}
	}
	return u.ID
}

// handle returns the @username, "" when there is none.
func (u user) handle() string {
	if u.Username == "" {
		return ""
	}
	return "@" + u.Username
}

// roles returns the roles of a member. There are none outside of servers.
func (m *member) roles() []string {
	if m == nil {
		return nil
	}
	return m.Roles
}
