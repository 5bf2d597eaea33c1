package telegram

import (
	"encoding/json"
	"strings"

	"parley/plaintext"
)

// contents are the kinds of content that a person sends without a text, as
// fields of https://core.telegram.org/bots/api#message in the order in which
// they are looked for: an animation is a document as well.
var contents = [...]string{
	"animation", "audio", "document", "photo", "sticker", "story", "video", "video_note", "voice", "paid_media",
	"contact", "dice", "game", "poll", "venue", "location", "checklist", "invoice",
}

// services are prefixes of the fields of messages that nobody wrote.
var services = [...]string{
	"new_chat_", "left_chat_", "delete_chat_", "group_chat_created", "supergroup_chat_created", "channel_chat_created",
	"message_auto_delete_timer_changed", "migrate_", "pinned_message", "successful_payment", "refunded_payment",
	"users_shared", "user_shared", "chat_shared", "connected_website", "write_access_allowed", "passport_data",
	"proximity_alert_triggered", "boost_added", "chat_background_set", "chat_owner_", "forum_topic_", "general_forum_topic_",
	"giveaway", "video_chat_", "web_app_data", "checklist_tasks_", "direct_message_price_", "suggested_post_",
	"paid_message_price_changed", "gift", "unique_gift", "gift_upgrade_sent",
}

// describe returns in brackets what a message without text contains, and "" for a
// message that nobody wrote. It names unknown contents as such, so that every
// message is answered.
func (u update) describe() string {
	const unknown = "[a message that can't be read]"
	var fields struct {
		Message map[string]json.RawMessage `json:"message"`
	}
	if err := json.Unmarshal(u.raw, &fields); err != nil || u.broken {
		return unknown
	}
	for _, kind := range contents {
		if raw, ok := fields.Message[kind]; ok {
			return "[" + strings.ReplaceAll(kind, "_", " ") + detail(raw) + "]"
		}
	}
	for field := range fields.Message {
		for _, prefix := range services {
			if strings.HasPrefix(field, prefix) {
				return ""
			}
		}
	}
	return unknown
}

// detail returns a word that tells one content from others of its kind.
func detail(raw json.RawMessage) string {
	var known struct {
		Emoji    string `json:"emoji"`
		FileName string `json:"file_name"`
		Question string `json:"question"`
		Title    string `json:"title"`
	}
	if json.Unmarshal(raw, &known) != nil {
		return ""
	}
	for _, text := range []string{known.Emoji, known.FileName, known.Question, known.Title} {
		if text = plaintext.OneLine(text); text != "" {
			return " " + text
		}
	}
	return ""
}
