package telegram

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/conversation/media"
	"parley/plaintext"
)

// lines returns a line in brackets for each content of a message that is not text: for each
// content that is not a file, and for files whose names do not say enough.
func (c *content) lines() string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, "["+fmt.Sprintf(format, args...)+"]") }
	switch {
	case c.Voice != nil && c.Voice.ID != "":
		add("voice message%s", comma(c.Voice.length()))
	case c.VideoNote != nil && c.VideoNote.ID != "":
		add("video message%s", comma(c.VideoNote.length()))
	case c.Audio != nil && c.Audio.ID != "":
		add("audio%s%s%s", quoted(c.Audio.Title), by(c.Audio.Performer), comma(c.Audio.length()))
	case c.Animation != nil && c.Animation.ID != "":
		add("animation%s", comma(c.Animation.length()))
	case c.Video != nil && c.Video.ID != "":
		add("video%s", comma(c.Video.length()))
	case c.Sticker != nil:
		add("sticker%s%s", space(c.Sticker.Emoji), ofSet(c.Sticker.Set))
	case c.Contact != nil:
		add("contact%s%s", space(c.Contact.FirstName+" "+c.Contact.LastName), comma(plaintext.OneLine(c.Contact.Phone)))
	case c.Venue != nil:
		add("place%s%s, at %s", quoted(c.Venue.Title), comma(plaintext.OneLine(c.Venue.Address)), c.Venue.Location)
	case c.Location != nil && c.Location.Live != 0:
		add("live location, now at %s", *c.Location)
	case c.Location != nil:
		add("location %s", *c.Location)
	case c.Poll != nil:
		lines = append(lines, c.Poll.text())
	case c.Checklist != nil:
		lines = append(lines, c.Checklist.text())
	case c.Dice != nil:
		add("dice%s: %d", space(c.Dice.Emoji), c.Dice.Value)
	case c.Rich != nil:
		lines = append(lines, c.Rich.markdown())
	}
	return strings.Join(lines, "\n")
}

// files returns the files of a message with the names that the model knows them by.
func (c *content) files(message int64) []named {
	var list []named
	add := func(f *file, name, mediaType string) {
		if f == nil || f.ID == "" {
			return
		}
		named := named{file: *f}
		named.Name = cmp.Or(plaintext.OneLine(f.Name), strings.Replace(name, ".", "-"+strconv.FormatInt(message, 10)+".", 1))
		named.MediaType = cmp.Or(f.MediaType, mediaType)
		list = append(list, named)
	}
	add(largest(c.Photo), "photo.jpg", "image/jpeg")
	add(c.Voice, "voice.ogg", "audio/ogg")
	add(c.VideoNote, "video-message.mp4", "video/mp4")
	add(c.Audio, "audio.mp3", "audio/mpeg")
	add(c.Video, "video.mp4", "video/mp4")
	add(c.Animation, "animation.mp4", "video/mp4")
	if c.Animation == nil { // else the document is the same file, for older programs
		add(c.Document, "document.bin", "application/octet-stream")
	}
	return append(list, c.Rich.files(message)...)
}

// named is a file with a name and a media type that are never empty.
type named struct{ file }

// attachment returns the file as the inbound has it.
func (n named) attachment(bot conversation.Account, chat, message int64) media.Attachment {
	return media.Attachment{
		Name: n.Name, MediaType: n.MediaType, Size: max(0, n.Size),
		Ref: ref{Bot: bot.ID, File: n.ID, Size: max(0, n.Size), Chat: chat, Message: message}.String(),
	}
}

// largest returns the largest of the sizes of a picture, nil for none.
func largest(sizes []file) *file {
	if len(sizes) == 0 {
		return nil
	}
	f := slices.MaxFunc(sizes, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.Width*a.Height, b.Width*b.Height), cmp.Compare(a.Size, b.Size))
	})
	return &f
}

// length returns the duration of a recording, such as "0:12", or "" if it is unknown.
func (f *file) length() string {
	if f.Duration <= 0 {
		return ""
	}
	return fmt.Sprintf("%d:%02d", f.Duration/60, f.Duration%60)
}

// String returns the coordinates in degrees, latitude first.
func (l location) String() string {
	degrees := func(d float64) string { return strconv.FormatFloat(d, 'f', -1, 64) }
	return degrees(l.Latitude) + ", " + degrees(l.Longitude)
}

func (p *poll) text() string {
	kind := "poll"
	if p.Type == "quiz" {
		kind = "quiz"
	}
	if p.Closed {
		kind = "closed " + kind
	}
	text := fmt.Sprintf("[%s: %s]", kind, plaintext.OneLine(p.Question))
	for _, o := range p.Options {
		text += "\n- " + plaintext.OneLine(o.Text)
		if o.Voters > 0 {
			text += fmt.Sprintf(" (%s)", votes(o.Voters))
		}
	}
	return text
}

func votes(n int64) string {
	if n == 1 {
		return "1 vote"
	}
	return fmt.Sprintf("%d votes", n)
}

func (c *checklist) text() string {
	text := fmt.Sprintf("[checklist: %s]", plaintext.OneLine(c.Title))
	for _, t := range c.Tasks {
		box := " "
		if t.Completed > 0 {
			box = "x"
		}
		text += fmt.Sprintf("\n- [%s] %s", box, plaintext.OneLine(t.Text))
	}
	return text
}

// The following functions add a text to a line, with what stands around it. They return ""
// for an empty text.

func space(text string) string  { return before(" ", plaintext.OneLine(text), "") }
func comma(text string) string  { return before(", ", text, "") }
func quoted(text string) string { return before(" “", plaintext.OneLine(text), "”") }
func by(text string) string     { return before(" by ", plaintext.OneLine(text), "") }
func ofSet(text string) string  { return before(" of the set ", plaintext.OneLine(text), "") }

func before(start, text, end string) string {
	if text == "" {
		return ""
	}
	return start + text + end
}

// contents are the kinds of content that a person sends, as fields of
// https://core.telegram.org/bots/api#message, in the order in which describe looks for them.
var contents = [...]string{
	"live_photo", "animation", "audio", "document", "photo", "sticker", "story", "video", "video_note", "voice", "paid_media",
	"contact", "dice", "game", "poll", "venue", "location", "checklist", "invoice", "rich_message", "giveaway", "giveaway_winners",
}

// services are prefixes of the fields of messages that nobody wrote.
var services = [...]string{
	"new_chat_", "left_chat_", "delete_chat_", "group_chat_created", "supergroup_chat_created", "channel_chat_created",
	"message_auto_delete_timer_changed", "migrate_", "pinned_message", "successful_payment", "refunded_payment",
	"users_shared", "user_shared", "chat_shared", "connected_website", "write_access_allowed", "passport_data",
	"proximity_alert_triggered", "boost_added", "chat_background_set", "chat_owner_", "forum_topic_", "general_forum_topic_",
	"giveaway_created", "giveaway_completed", "video_chat_", "web_app_data", "checklist_tasks_", "direct_message_price_", "suggested_post_",
	"paid_message_price_changed", "gift", "unique_gift", "gift_upgrade_sent",
}

// describe returns, in brackets, the kind of a content that is not shown otherwise. It
// returns "" for a message that has a text, and for one that nobody wrote. Kinds that the
// gateway does not know are named, too, so that every message is answered.
func (u update) describe(hasText bool) string {
	unknown := "[a message that can't be read]"
	if hasText {
		unknown = ""
	}
	var fields struct {
		Message map[string]json.RawMessage `json:"message"`
		Edited  map[string]json.RawMessage `json:"edited_message"`
	}
	if err := json.Unmarshal(u.raw, &fields); err != nil {
		return unknown
	}
	if fields.Message == nil {
		fields.Message = fields.Edited
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

// detail returns a word that distinguishes a content from others of its kind.
func detail(raw json.RawMessage) string {
	var known struct {
		Emoji    string  `json:"emoji"`
		FileName string  `json:"file_name"`
		Question string  `json:"question"`
		Prize    string  `json:"prize_description"` // of a giveaway
		Title    string  `json:"title"`
		Chat     account `json:"chat"` // of a story
	}
	if json.Unmarshal(raw, &known) != nil {
		return ""
	}
	for _, text := range []string{known.Emoji, known.FileName, known.Question, known.Title, known.Prize} {
		if text = plaintext.OneLine(text); text != "" {
			return " " + text
		}
	}
	if known.Chat.ID != 0 {
		return " of " + known.Chat.name()
	}
	return ""
}
