package discord

import (
	"strings"

	"parley/channels"
	"parley/channels/markdown"
	"parley/conversation"
	"parley/plaintext"
)

// maxUnits is the limit on a message: https://discord.com/developers/docs/resources/message#create-message.
// Discord's server counts code points (github.com/discord/discord-api-docs/issues/1315), its clients
// UTF-16 code units. Those are never fewer, so counting them keeps to both.
const maxUnits = 2000

// fileNotice stands below the beginning of a reply that is sent as a file.
const fileNotice = "\n-# " + channels.ReplyNotice

// parts renders a reply and splits it into messages. One that takes more than
// fileOver messages becomes a single one: its beginning, and all of the
// markdown as a file; 0 = never. One that was begun in messages, when fileOver was
// larger, goes on so. A text that shows nothing is a dash.
func parts(d conversation.Delivery, fileOver int) []channels.Part {
	source := plaintext.Clean(d.Text)
	rendered := render(source)
	texts := split(rendered, maxUnits)
	switch {
	case len(texts) == 0:
		texts = []string{markdown.Nothing}
	case fileOver > 0 && len(texts) > fileOver && d.Transcript == nil && len(d.Sent) == 0:
		first := split(rendered, maxUnits-markdown.Units(markdown.UTF16).Count(fileNotice))[0] + fileNotice
		file := &channels.File{Name: channels.ReplyFile, Data: []byte(source)}
		return []channels.Part{{Text: first, Plain: first, File: file}}
	}
	to := make([]channels.Part, len(texts))
	for i, text := range texts {
		to[i] = channels.Part{Index: i, Text: text, Plain: text}
	}
	to[len(to)-1].File = channels.TranscriptOf(d)
	return to
}

// split cuts rendered text into messages that show something, without the
// blank lines around them, which Discord would drop.
func split(rendered string, limit int) []string {
	var texts []string
	for _, text := range markdown.Split(rendered, limit, markdown.UTF16) {
		if text = strings.Trim(text, "\n"); markdown.Visible(text) {
			texts = append(texts, text)
		}
	}
	return texts
}
