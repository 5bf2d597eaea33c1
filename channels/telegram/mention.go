package telegram

import (
	"strings"
	"unicode"
)

// forUs returns what a message says, and whether it is addressed to the bot:
// always in private chats, and in groups when it mentions the bot, replies to it,
// or is a command that names no other bot. The bot's name is taken off where the
// text begins with it, since it only says for whom the text is. A forwarded text is
// no command.
func (m *message) forUs(me *self) (text string, addressed bool) {
	words, entities := m.words()
	plain := strings.ReplaceAll(words, "\x00", "")
	if command, bot, rest, ok := splitCommand(plain); ok && !m.isSecondHand() {
		if bot == "" || strings.EqualFold(bot, me.username) {
			return "/" + command + rest, true
		}
		return plain, !m.isGroup()
	}
	if !m.isGroup() {
		return m.body(0), true
	}
	from, mentioned := me.address(words, entities)
	if strings.TrimSpace(words[from:]) == "" && m.lines() == "" && len(m.files(m.ID)) == 0 {
		from = 0 // a message that only names the bot keeps the name, so that it says anything
	}
	return m.body(from), mentioned || m.repliesTo(me)
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

// address returns where a text goes on after the bot's name at its beginning, 0
// where it begins with something else, and reports whether it mentions the bot
// anywhere.
func (me *self) address(text string, entities []entity) (from int, mentioned bool) {
	for _, e := range entities[:min(len(entities), maxEntities)] {
		if e.Type != "mention" && e.Type != "text_mention" {
			continue
		}
		begin, end := byteOffset(text, e.Offset), byteOffset(text, e.Offset+e.Length)
		if begin < from || end <= begin || !me.isNamed(text[begin:end], e.User) {
			continue
		}
		mentioned = true
		if strings.TrimSpace(text[from:begin]) == "" {
			from = len(text) - len(strings.TrimLeft(text[end:], " \n,:;-–—"))
		}
	}
	return from, mentioned
}

func (me *self) isNamed(text string, user *account) bool {
	if user != nil {
		return user.ID == me.id
	}
	return me.username != "" && strings.EqualFold(text, "@"+me.username)
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
