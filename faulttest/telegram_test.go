package faulttest

import (
	"fmt"
	"strings"
	"time"

	"parley/channels/telegram/telegramtest"
)

// telegram has private chats only.
type telegram struct {
	*telegramtest.Server
	quiet string // the time that a run waits for further messages; with 0s, each message is answered separately
}

func newTelegram(w *world) platform { return telegramWith("0s")(w) }

// telegramWith returns a Telegram platform with that wait for further messages.
func telegramWith(quiet string) func(*world) platform {
	return func(w *world) platform {
		w.telegram = telegramtest.New(w.t)
		return telegram{w.telegram, quiet}
	}
}

func (s telegram) section() string {
	return fmt.Sprintf(`
[telegram]
token = %q
api_url = %q
access = "open"
send_rate = 0
chat_rate = 0
quiet = %q
`, s.Token, s.URL, s.quiet)
}

func (telegram) key(chat int) string { return fmt.Sprintf("telegram:chat:%d", chat) }
func (telegram) partLength() int     { return 4000 }
func (telegram) repeats(int) bool    { return true }

func (telegram) load() load {
	return load{kills: 8, life: 500 * time.Millisecond, pace: 12 * time.Millisecond}
}

func person(chat int) telegramtest.User {
	return telegramtest.User{ID: int64(chat), FirstName: fmt.Sprintf("Person %d", chat)}
}

func (s telegram) say(chat int, text string) {
	s.Say(telegramtest.Private(person(chat)), person(chat), text)
}

func (s telegram) sent(chat int) []string {
	var texts []string
	for _, m := range s.SentTo(int64(chat)) {
		texts = append(texts, m.Text)
	}
	return texts
}

func (s telegram) pictures(chat int) (names []string) {
	for _, m := range s.SentTo(int64(chat)) {
		if m.Document != nil {
			names = append(names, m.Document.Name)
		}
	}
	return names
}

func (s telegram) onSend(before, after func(int, string) verdict) {
	hook := func(ask func(int, string) verdict) func(telegramtest.Message) telegramtest.Verdict {
		return func(m telegramtest.Message) telegramtest.Verdict {
			if ask == nil || ask(int(m.Chat), m.Text) == answered {
				return telegramtest.Verdict{}
			}
			return telegramtest.Drop()
		}
	}
	s.OnSend(hook(before), hook(after))
	s.OnEdit(func(m telegramtest.Message) { // as a preview becomes its reply
		if after != nil {
			after(int(m.Chat), m.Text)
		}
	})
}

func (s telegram) limit(chat int, wait time.Duration) {
	s.Refuse(int64(chat), telegramtest.TooMany(int(wait/time.Second)), 1)
}

func (s telegram) connections() int { return s.Calls("getUpdates") }
func (s telegram) unstored() int    { return s.Pending() }

func (telegram) secrets() []string {
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	return []string{secret}
}

func (telegram) complaints() string { return "" }
