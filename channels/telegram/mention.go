package telegram

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// isAddressed reports whether a message is for the bot: always in private chats, and
// in groups when it mentions the bot, replies to it, or is a command of the bot that
// names no other one: several bots may be in a group, each with its own commands. A
// forwarded text is no command.
func (m *message) isAddressed(me *self) bool {
	if !m.isGroup() || m.EphemeralID != 0 {
		return true
	}
	if command, bot, _, ok := m.command(); ok && (bot != "" || slices.Contains(me.commands, strings.ToLower(command))) {
		return bot == "" || strings.EqualFold(bot, me.username)
	}
	text, entities := m.words()
	_, mentioned := me.address(text, entities)
	return mentioned || m.repliesTo(me)
}

// isFor reports whether a message is for the bot: it is addressed to it, or stands in
// a chat where every message is. Commands of other bots are not.
func (c *Channel) isFor(me *self, m *message) bool {
	if m.isAddressed(me) {
		return true
	}
	if _, _, _, command := m.command(); command {
		return false
	}
	to := m.address()
	chat := strconv.FormatInt(to.Chat, 10)
	return slices.Contains(c.free, chat) || slices.Contains(c.free, chat+"/"+strconv.FormatInt(to.Topic, 10))
}

// command splits a message that may be a command.
func (m *message) command() (command, bot, rest string, ok bool) {
	if m.isSecondHand() {
		return "", "", "", false
	}
	text, _ := m.words()
	return splitCommand(strings.ReplaceAll(text, "\x00", ""))
}

// textFor returns the text of a message without the bot's name at the beginning, which only
// addresses it.
func (m *message) textFor(me *self) string {
	text, entities := m.words()
	if command, bot, rest, ok := m.command(); ok {
		if bot == "" || strings.EqualFold(bot, me.username) {
			return "/" + command + rest
		}
		return strings.ReplaceAll(text, "\x00", "")
	}
	if !m.isGroup() {
		return m.body(0)
	}
	from, _ := me.address(text, entities)
	if strings.TrimSpace(text[from:]) == "" && m.lines() == "" && len(m.files(m.ID)) == 0 {
		from = 0 // a message that only names the bot keeps the name, so that it says anything
	}
	return m.body(from)
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

// address returns the offset behind the bot's name at the beginning of a text, or 0 if the text
// begins with something else. It also reports whether the text mentions the bot anywhere.
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
