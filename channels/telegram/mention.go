package telegram

import (
	"strings"
	"unicode"
)

// forUs returns the text of a message without the bot's name, and whether it is
// addressed to the bot: always in private chats, and in groups when it mentions
// the bot, replies to it, or is a command that names no other bot. A forwarded
// text is no command.
func (m *message) forUs(me *self) (text string, addressed bool) {
	text, entities := m.Text, m.Entities
	if text == "" {
		text, entities = m.Caption, m.CaptionEnts
	}
	plain := strings.ReplaceAll(text, "\x00", "")
	if command, bot, rest, ok := splitCommand(plain); ok && !m.isSecondHand() {
		if bot == "" || strings.EqualFold(bot, me.username) {
			return "/" + command + rest, true
		}
		return plain, !m.isGroup()
	}
	if !m.isGroup() {
		return plain, true
	}
	without, mentioned := me.removeMentions(text, entities)
	if without = strings.ReplaceAll(without, "\x00", ""); mentioned && without != "" {
		return without, true
	}
	return plain, mentioned || m.repliesTo(me)
}

// repliesTo reports whether the message replies to one of the bot. In a topic
// every message replies to the one that opened it, which does not count.
func (m *message) repliesTo(me *self) bool {
	r := m.ReplyTo
	return r != nil && r.From != nil && r.From.ID == me.id && r.TopicCreated == nil
}

// splitCommand splits "/name@bot rest". Names have up to 32 letters, digits and
// underscores.
func splitCommand(text string) (command, bot, rest string, ok bool) {
	if !strings.HasPrefix(text, "/") {
		return "", "", "", false
	}
	word := text[1:]
	if i := strings.IndexFunc(word, unicode.IsSpace); i >= 0 {
		word, rest = word[:i], word[i:]
	}
	command, bot, _ = strings.Cut(word, "@")
	ok = command != "" && len(command) <= 32 && isName(command) && isName(bot)
	return command, bot, rest, ok
}

func isName(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
}

// removeMentions removes the bot's name from a text, and reports whether it was
// there.
func (me *self) removeMentions(text string, entities []entity) (without string, mentioned bool) {
	pos := 0
	for _, e := range entities {
		if e.Type != "mention" && e.Type != "text_mention" {
			continue
		}
		from, to := byteOffset(text, e.Offset), byteOffset(text, e.Offset+e.Length)
		if from < pos || to <= from || !me.isNamed(text[from:to], e.User) {
			continue
		}
		without, pos, mentioned = join(without, text[pos:from], mentioned), to, true
	}
	return strings.TrimSpace(join(without, text[pos:], mentioned)), mentioned
}

func (me *self) isNamed(text string, user *account) bool {
	if user != nil {
		return user.ID == me.id
	}
	return me.username != "" && strings.EqualFold(text, "@"+me.username)
}

// join appends the text after a name that was removed, without the gap and the
// punctuation that the name leaves. Without a name it only appends.
func join(before, after string, named bool) string {
	if !named {
		return before + after
	}
	if strings.TrimSpace(before) == "" {
		return strings.TrimLeft(after, " ,:;-–—")
	}
	next := strings.TrimLeft(after, " ")
	switch {
	case next == "" || strings.HasPrefix(next, "\n") || strings.ContainsAny(next[:1], ",.;:!?"):
		return strings.TrimRight(before, " ") + next
	case strings.HasSuffix(before, " "):
		return before + next
	}
	return before + after
}

// byteOffset returns where the UTF-16 code unit at offset begins, and -1 when
// there is none or it is the second half of a pair.
func byteOffset(text string, offset int) int {
	units := 0
	for i, r := range text {
		switch {
		case units == offset:
			return i
		case units > offset:
			return -1
		case r > 0xFFFF:
			units += 2
		default:
			units++
		}
	}
	if units == offset {
		return len(text)
	}
	return -1
}
