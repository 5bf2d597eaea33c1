package telegramtest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
)

// sharedState holds what the bots of one server share.
type sharedState struct {
	mu          sync.Mutex
	bots        map[string]*Server // by token
	supergroups map[int64]*chat    // whose messages have the same ids for all bots
}

// newBot returns the server as a bot sees it.
func newBot(url string, with *sharedState, bot User, token string) *Server {
	s := &Server{
		URL:      url,
		Bot:      bot,
		Token:    token,
		with:     with,
		mu:       &with.mu,
		chats:    map[int64]*chat{},
		calls:    map[string]int{},
		failures: map[string][]Verdict{},
		files:    map[string]file{},

		unconfirmed: map[string]bool{},
		pressedBy:   map[string]int64{},
		ephemeral:   map[int64]ephemeral{},
		lastID:      1000,
	}
	s.changed = sync.NewCond(s.mu)
	with.bots[token] = s
	return s
}

// AddBot adds a bot and returns the server as that bot sees it: with updates, calls and
// private chats of its own, whose messages are numbered separately. Supergroups are shared:
// a message there goes to every bot that knows the group, with one id.
func (s *Server) AddBot(bot User) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	bot.IsBot = true
	token := strconv.FormatInt(bot.ID, 10) + ":telegramtest-token-not-a-secret"
	if s.with.bots[token] != nil {
		panic(fmt.Sprintf("telegramtest: there is a bot %d already", bot.ID))
	}
	return newBot(s.URL, s.with, bot, token)
}

// byToken returns the server as the bot with a token sees it, nil if there is none.
func (s *Server) byToken(token string) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.with.bots[token]
}

// newChat returns a chat that the bot does not know yet, with what other bots know of it.
func (s *Server) newChat(c Chat) *chat {
	known := s.with.supergroups[c.ID]
	if known == nil {
		known = &chat{topics: map[int64]bool{}, topicNames: map[int64]string{}, authors: map[int64]User{}, said: map[int64]json.RawMessage{}, closed: map[int64]bool{}}
		if c.Type == "supergroup" {
			s.with.supergroups[c.ID] = known
		}
	}
	return known
}

// others returns the other bots that get the messages of a chat.
func (s *Server) others(c Chat) (list []*Server) {
	for _, other := range s.with.bots {
		if other != s && s.with.supergroups[c.ID] != nil && other.chats[c.ID] != nil {
			list = append(list, other)
		}
	}
	return list
}
