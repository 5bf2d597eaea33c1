package faulttest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/channels/discord/discordtest"
)

// discord has a DM, a channel or a thread for each person. In the channels
// people also say what is not for the assistant.
type discord struct {
	*discordtest.Server
	w *world

	mu     sync.Mutex
	home   discordtest.Guild
	lobby  discordtest.Channel // parent of the threads
	places map[int]spot
	chats  map[string]int // by the place's id
	limits map[int]time.Duration
}

// spot is the place in which a person writes.
type spot struct {
	discordtest.Channel
	who discordtest.User
}

func newDiscord(w *world) platform {
	w.discord = &discord{
		Server: discordtest.New(w.t), w: w,
		places: map[int]spot{}, chats: map[string]int{}, limits: map[int]time.Duration{},
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

// spot returns the chat's place, which it creates if there is none.
func (s *discord) spot(chat int) spot {
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

// meetAlone makes the chat's place a DM, whatever its number.
func (s *discord) meetAlone(chat int) {
	who := s.Person(fmt.Sprintf("Person %d", chat))
	at := spot{s.DM(who), who}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[chat], s.chats[at.ID] = at, chat
}

func (s *discord) key(chat int) string {
	at := s.spot(chat)
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

// load has lives that are long enough for an answer to be shown while it is
// written, and for some of these to end.
func (*discord) load() load {
	return load{kills: 12, life: 3000 * time.Millisecond, pace: 40 * time.Millisecond, slowly: 8}
}

func (s *discord) say(chat int, text string) {
	at := s.spot(chat)
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
	for _, m := range s.SentTo(s.spot(chat).Channel) {
		text := m.Content
		if strings.Contains(text, previewMark) {
			text = unfinished + text
		}
		texts = append(texts, text)
	}
	return texts
}

func (s *discord) pictures(chat int) (names []string) {
	for _, m := range s.SentTo(s.spot(chat).Channel) {
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

// untaken looks into the database: Discord is told nothing.
func (s *discord) untaken() int { return s.w.written() - s.w.stored() }

func (*discord) secrets() []string { return []string{discordtest.Token} }

// complaints returns malformed requests, and replies that people saw and that were
// deleted again.
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
