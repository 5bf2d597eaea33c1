package telegram

import (
	"strings"

	"parley/channels"
	"parley/channels/markdown"
	"parley/conversation"
	"parley/plaintext"
)

// Limits of sendMessage: https://core.telegram.org/bots/api#sendmessage
const (
	maxUnits  = 4096    // UTF-16 code units after entities parsing
	maxSource = 1 << 15 // bytes of a text with its markup; the server refuses longer ones
	maxStyled = 100     // entities of a text; Telegram drops further ones, links too: https://github.com/rubenlagus/TelegramBots/issues/854
	maxTags   = 8000    // bytes of their tags, mostly addresses; it refuses about 9,500: https://github.com/tdlib/telegram-bot-api/issues/165
	maxRender = 1 << 15 // bytes of markdown that are parsed at once, since parsing is not linear

	maxCaption = 1024 // UTF-16 code units of a text below a file: https://core.telegram.org/bots/api#senddocument
)

// Split renders the markdown and cuts the result into messages. A text that shows
// nothing becomes a dash. More than file_over messages become two: the first of
// them, and a file with all of the markdown. The first message is the same in
// both forms, so that a reply begun in one may go on in the other; but a reply
// that was begun in more messages goes on in messages, and one for a chat without files begins so.
func (c *Channel) Split(d conversation.Delivery) []channels.Part {
	source := plaintext.Clean(d.Text)
	if file := channels.TranscriptOf(d); file != nil {
		return withFile(c.renderer.parts(source, 0), file)
	}
	most := c.fileOver
	if len(d.Sent) > 1 || d.NoFile {
		most = 0
	}
	parts := c.renderer.parts(source, most)
	if most > 0 && len(parts) > most {
		file := &channels.File{Name: channels.ReplyFile, Data: []byte(source)}
		return []channels.Part{parts[0], {Index: 1, Text: channels.ReplyNotice, Plain: channels.ReplyNotice, File: file}}
	}
	return parts
}

// withFile adds a file to the last message, or after it when that is too long for
// a caption.
func withFile(parts []channels.Part, file *channels.File) []channels.Part {
	last := len(parts) - 1
	if units := markdown.Units(markdown.UTF16).Count(parts[last].Plain); units > maxCaption {
		return append(parts, channels.Part{Index: last + 1, File: file})
	}
	parts[last].File = file
	return parts
}

// parts returns the messages of a text. If most is not 0, it may stop as soon as there are
// more than that.
func (r *renderer) parts(source string, most int) []channels.Part {
	chunks := []string{source}
	if len(source) > maxRender {
		chunks = markdown.Split(source, maxRender, func(r rune) int { return len(string(r)) })
	}
	var parts []channels.Part
	for _, chunk := range chunks {
		parts = r.render(chunk).parts(parts)
		if most > 0 && len(parts) > most {
			break
		}
	}
	if len(parts) == 0 {
		return []channels.Part{{Text: markdown.Nothing, Plain: markdown.Nothing}}
	}
	return parts
}

// parts appends the messages of one text.
func (t styledText) parts(to []channels.Part) []channels.Part {
	for pos := 0; pos < len(t.text); {
		from, end, next, html := t.part(pos)
		pos = next
		if from < end && markdown.Visible(t.text[from:end]) {
			to = append(to, channels.Part{Index: len(to), Text: html, Plain: t.text[from:end]})
		}
	}
	return to
}

// part returns the message that begins at pos, without the white space around it,
// and where the next begins.
func (t styledText) part(pos int) (from, end, next int, html string) {
	for limit := maxUnits; ; limit = limit * 3 / 4 {
		end, next = len(t.text), len(t.text)
		if len(t.text)-pos > limit {
			end, next = markdown.Cut(t.text, pos, limit, markdown.UTF16, t.code)
		}
		end = pos + len(strings.TrimRight(t.text[pos:end], " \t\n"))
		from = end - len(strings.TrimLeft(t.text[pos:end], "\n"))
		html, fits := t.html(from, end)
		if fits || limit < 2 {
			return from, end, next, html
		}
	}
}
