package telegram

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"parley/plaintext"
)

// The part of the Bot API's types that the adapter reads. The library's own are
// older than topics: https://core.telegram.org/bots/api#message
type (
	update struct {
		ID      int64    `json:"update_id"` // 0 when there is none that could be one
		Message *message `json:"message"`
		Edited  *message `json:"edited_message"`

		Callback *callback   `json:"callback_query"`
		Member   *membership `json:"my_chat_member"`
		Stopped  *stopped    `json:"stopped_message_generation"`

		raw json.RawMessage
	}

	// callback is the press of a button.
	callback struct {
		ID      string   `json:"id"`
		From    *account `json:"from"`
		Message *message `json:"message"` // the message that has the button; without a date when it is too old
		Data    string   `json:"data"`
	}

	message struct {
		ID             int64    `json:"message_id"`
		ThreadID       int64    `json:"message_thread_id"`
		IsTopicMessage bool     `json:"is_topic_message"`
		From           *account `json:"from"`
		SenderChat     *account `json:"sender_chat"` // for who writes in the name of a group or channel
		Chat           account  `json:"chat"`
		Date           int64    `json:"date"`
		EditDate       int64    `json:"edit_date"`
		Text           string   `json:"text"`
		Entities       []entity `json:"entities"`
		Caption        string   `json:"caption"`
		CaptionEnts    []entity `json:"caption_entities"`
		Album          string   `json:"media_group_id"`
		EphemeralID    int64    `json:"ephemeral_message_id"` // 0: everybody sees it, and it has an ID
		MigrateTo      int64    `json:"migrate_to_chat_id"`
		MigrateFrom    int64    `json:"migrate_from_chat_id"`

		ReplyTo  *message   `json:"reply_to_message"`
		External *external  `json:"external_reply"` // what it replies to in another chat or topic
		Quote    *textQuote `json:"quote"`          // the part of that which the sender has chosen

		TopicCreated *topic `json:"forum_topic_created"`
		TopicEdited  *topic `json:"forum_topic_edited"`

		content
		forwarding
		ViaBot json.RawMessage `json:"via_bot"` // the bot that the sender had write the text
	}

	// content is what a message has beside its text.
	content struct {
		Photo     []file       `json:"photo"` // the same picture in several sizes
		Document  *file        `json:"document"`
		Animation *file        `json:"animation"`
		Audio     *file        `json:"audio"`
		Video     *file        `json:"video"`
		VideoNote *file        `json:"video_note"`
		Voice     *file        `json:"voice"`
		Sticker   *file        `json:"sticker"`
		Contact   *contact     `json:"contact"`
		Location  *location    `json:"location"`
		Venue     *venue       `json:"venue"`
		Poll      *poll        `json:"poll"`
		Checklist *checklist   `json:"checklist"`
		Dice      *dice        `json:"dice"`
		Rich      *richMessage `json:"rich_message"`
	}

	// external is https://core.telegram.org/bots/api#externalreplyinfo
	external struct {
		Origin json.RawMessage `json:"origin"`
		content
	}

	// textQuote is https://core.telegram.org/bots/api#textquote
	textQuote struct {
		Text     string   `json:"text"`
		Entities []entity `json:"entities"`
		Manual   bool     `json:"is_manual"` // the sender has selected the quoted text, and not the server
	}

	// forwarding is what a forwarded message has, now and on servers from before
	// Bot API 7.0.
	forwarding struct {
		Origin     json.RawMessage `json:"forward_origin"`
		Date       json.RawMessage `json:"forward_date"`
		From       json.RawMessage `json:"forward_from"`
		FromChat   json.RawMessage `json:"forward_from_chat"`
		SenderName json.RawMessage `json:"forward_sender_name"`
		Automatic  json.RawMessage `json:"is_automatic_forward"` // the message is a post of a channel, in the group that discusses it
	}

	// account is a user or a chat.
	account struct {
		ID        int64  `json:"id"`
		IsBot     bool   `json:"is_bot"`
		Type      string `json:"type"`
		Title     string `json:"title"`
		FirstName string `json:"first_name"`
		LastName  string `json:"last_name"`
		Username  string `json:"username"`
	}

	topic struct {
		Name string `json:"name"`
	}

	// entity is a marked stretch of a text, in UTF-16 code units.
	entity struct {
		Type     string   `json:"type"`
		Offset   int      `json:"offset"`
		Length   int      `json:"length"`
		User     *account `json:"user"`
		URL      string   `json:"url"`
		Language string   `json:"language"`
	}

	// file is a photo, a document, a voice message and the like.
	file struct {
		ID        string `json:"file_id"`
		Name      string `json:"file_name"`
		MediaType string `json:"mime_type"`
		Size      int64  `json:"file_size"` // bytes, 0 when not said
		Width     int64  `json:"width"`
		Height    int64  `json:"height"`
		Duration  int64  `json:"duration"` // seconds
		Performer string `json:"performer"`
		Title     string `json:"title"`
		Emoji     string `json:"emoji"`    // emoji of a sticker
		Set       string `json:"set_name"` // name of a sticker's set
	}

	contact struct {
		Phone     string `json:"phone_number"`
		FirstName string `json:"first_name"`
		LastName  string `json:"last_name"`
		VCard     string `json:"vcard"`
	}

	location struct {
		Latitude  float64 `json:"latitude"`
		Longitude float64 `json:"longitude"`
		Live      int64   `json:"live_period"` // seconds; 0: it does not move
	}

	venue struct {
		Location location `json:"location"`
		Title    string   `json:"title"`
		Address  string   `json:"address"`
	}

	poll struct {
		Question string `json:"question"`
		Options  []struct {
			Text   string `json:"text"`
			Voters int64  `json:"voter_count"`
		} `json:"options"`
		Closed bool   `json:"is_closed"`
		Type   string `json:"type"` // "regular" or "quiz"
	}

	checklist struct {
		Title string `json:"title"`
		Tasks []struct {
			Text      string `json:"text"`
			Completed int64  `json:"completion_date"` // Unix time; 0: the task is not done
		} `json:"tasks"`
	}

	dice struct {
		Emoji string `json:"emoji"`
		Value int64  `json:"value"`
	}
)

func (f *forwarding) isForwarded() bool {
	return slices.ContainsFunc([]json.RawMessage{f.Origin, f.Date, f.From, f.FromChat, f.SenderName, f.Automatic}, isSet)
}

// isSet reports whether a field has a value other than null and false.
func isSet(field json.RawMessage) bool {
	return len(field) > 0 && string(field) != "null" && string(field) != "false"
}

// lastDate is the end of the year 9999 in Unix time: a later one is no date.
const lastDate = 253402300799

// unixTime returns a time of Telegram's, the zero time for none.
func unixTime(seconds int64) time.Time {
	if seconds <= 0 || seconds > lastDate {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func (m *message) isGroup() bool { return isGroup(m.Chat.ID) }

// sender returns who wrote the message: for an anonymous administrator the group,
// since "from" names a bot of Telegram's.
func (m *message) sender() *account {
	if m.SenderChat != nil {
		return m.SenderChat
	}
	return m.From
}

func (a *account) id() string { return strconv.FormatInt(a.ID, 10) }

// name returns the name that others in the chat see.
func (a *account) name() string {
	for _, name := range []string{a.FirstName + " " + a.LastName, a.Title, a.Username} {
		if name = plaintext.Name(name); name != "" {
			return name
		}
	}
	return a.id()
}

// handle returns the @username, "" when there is none.
func (a *account) handle() string {
	if a.Username == "" {
		return ""
	}
	return "@" + a.Username
}
