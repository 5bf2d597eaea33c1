package faulttest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/channels/discord/discordtest"
)

// discord gives each person a DM, a channel or a thread. In the channels people also write messages
// that are not for the assistant.
type discord struct {
	*discordtest.Server
	w *world

	mu     sync.Mutex
	home   discordtest.Guild
	lobby  discordtest.Channel // parent of the threads
	places map[int]discordPlace
	chats  map[string]int     // by the channel's id
	people []discordtest.User // see crowd
	limits map[int]time.Duration
}

// discordPlace is where a person writes.
type discordPlace struct {
	discordtest.Channel
	who discordtest.User
}

func newDiscord(w *world) platform {
	w.discord = &discord{
		Server: discordtest.New(w.t), w: w,
		places: map[int]discordPlace{}, chats: map[string]int{}, limits: map[int]time.Duration{},
	}
	w.discord.home = w.discord.Guild("Home")
	w.discord.lobby = w.discord.Channel(w.discord.home, "lobby")
	return w.discord
}

func (s *discord) section() string {
	return fmt.Sprintf(`
[discord]
token = %q
api_url = %q
access = "open"
`, discordtest.Token, s.URL)
}

// discordPlace returns the chat's place, and creates it if there is none.
func (s *discord) discordPlace(chat int) discordPlace {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, made := s.places[chat]
	if made {
		return at
	}
	at.who = s.Person(fmt.Sprintf("Person %d", chat))
	switch chat % 3 {
	case 1:
		at.Channel = s.DM(at.who)
	case 2:
		at.Channel = s.Channel(s.home, fmt.Sprintf("channel-%d", chat))
	default:
		at.Channel = s.Thread(s.lobby, discordtest.Bot, fmt.Sprintf("Thread %d", chat))
	}
	s.places[chat], s.chats[at.ID] = at, chat
	return at
}

// useDM makes the chat's place a DM, whatever its number.
func (s *discord) useDM(chat int) {
	who := s.Person(fmt.Sprintf("Person %d", chat))
	at := discordPlace{s.DM(who), who}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[chat], s.chats[at.ID] = at, chat
}

func (s *discord) key(chat int) string {
	at := s.discordPlace(chat)
	switch {
	case at.Type == discordtest.DMChannel:
		return "discord:dm:" + at.who.ID
	case at.IsThread():
		return "discord:thread:" + at.ID
	}
	return "discord:channel:" + at.ID
}

func (*discord) partLength() int  { return 1900 }
func (*discord) repeats(int) bool { return false }

// load lets gateways live long enough to show an answer while it is written, and to finish some.
func (*discord) load() load {
	return load{kills: 5, life: 3000 * time.Millisecond, pace: 40 * time.Millisecond, slowly: 8}
}

func (s *discord) say(chat int, text string) { s.sayAs(s.discordPlace(chat), text) }

// sayInTurn has the n-th message of a group written by one of eight people, so that those that wait together are fewer than the
// model is shown of one person.
func (s *discord) sayInTurn(chat, n int, text string) {
	at := s.discordPlace(chat)
	if at.Type != discordtest.DMChannel {
		at.who = s.crowd()[n%8]
	}
	s.sayAs(at, text)
}

// crowd returns eight people, who are the same in each group.
func (s *discord) crowd() []discordtest.User {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.people) < 8 {
		s.people = append(s.people, s.Person(fmt.Sprintf("Writer %d", len(s.people))))
	}
	return s.people
}

func (s *discord) sayAs(at discordPlace, text string) {
	if at.Type == discordtest.TextChannel {
		s.Say(at.Channel, at.who, "not to the assistant")
		text = discordtest.Bot.Mention() + " " + text
	}
	s.Say(at.Channel, at.who, text)
}

// previewMark marks an answer that is shown while it is written.
const previewMark = "✍️"

func (s *discord) sent(chat int) []string {
	var texts []string
	for _, m := range s.SentTo(s.discordPlace(chat).Channel) {
		text := m.Content
		if strings.Contains(text, previewMark) {
			text = unfinishedMark + text
		}
		texts = append(texts, text)
	}
	return texts
}

func (s *discord) pictures(chat int) (names []string) {
	for _, m := range s.SentTo(s.discordPlace(chat).Channel) {
		for _, f := range m.Files {
			names = append(names, f.Name)
		}
	}
	return names
}

func (s *discord) onSend(before, after func(int, string) verdict) {
	hook := func(ask func(int, string) verdict) func(discordtest.Message) discordtest.Verdict {
		return func(m discordtest.Message) discordtest.Verdict {
			if ask == nil || ask(s.chat(m), m.Content) == answered {
				return discordtest.Verdict{}
			}
			return discordtest.Drop()
		}
	}
	ask := hook(before)
	s.OnSend(func(m discordtest.Message) discordtest.Verdict {
		if wait := s.limited(m); wait > 0 {
			return discordtest.TooMany(wait)
		}
		return ask(m)
	}, hook(after))
}

// chat returns the chat of a message.
func (s *discord) chat(m discordtest.Message) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chats[m.Channel]
}

func (s *discord) limit(chat int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[chat] = wait
}

// limited returns how long a message has to wait, once for each message.
func (s *discord) limited(m discordtest.Message) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	chat := s.chats[m.Channel]
	wait := s.limits[chat]
	delete(s.limits, chat)
	return wait
}

func (s *discord) connections() int { return s.Counts().Identifies }

// unstored counts in the database: a bot acknowledges nothing to Discord.
func (s *discord) unstored() int { return s.w.written() - s.w.stored() }

func (*discord) secrets() []string { return []string{discordtest.Token} }

// complaints lists malformed requests, and replies that were deleted after people saw them.
func (s *discord) complaints() string {
	list := s.Violations()
	for _, m := range s.Sent() {
		if !m.Deleted {
			continue
		}
		for _, v := range m.Versions {
			if !strings.Contains(v.Content, previewMark) {
				list = append(list, fmt.Sprintf("the reply %q was taken away", v.Content))
			}
		}
	}
	return strings.Join(list, "\n")
}
