// Package telegramtest is a Telegram Bot API server for tests: the real wire
// protocol over HTTP, in memory, as strict as the real one.
package telegramtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// Token is the token of the bot that a server begins with, and Bot that bot.
const Token = "7000001:telegramtest-token-not-a-secret"

// Bot is the account of the bot.
var Bot = User{ID: 7000001, IsBot: true, FirstName: "Parley", Username: "parley_bot"}

// kept is how many confirmed updates Redeliver can bring back.
const kept = 20_000

// Server is a Bot API server as one bot sees it: see AddBot for others. All methods
// may be called from any goroutine.
type Server struct {
	URL   string // for the adapter's api_url
	Bot   User
	Token string // of the bot

	http *http.Server // nil for all bots but the first
	open atomic.Int64 // connections, of the first
	with *sharedState

	mu            *sync.Mutex // of all bots
	changed       *sync.Cond  // on mu, whenever anything that a test waits for changed
	chats         map[int64]*chat
	sent          []Message
	calls         map[string]int
	log           []Call // all calls but getUpdates, sendMessage and sendDocument
	commands      string
	groupCommands string          // commands of the scope all_group_chats
	files         map[string]file // by file_id
	filesDir      string          // folder of the bot's files on a server with --local; "" = the server has no --local

	presses     int              // presses of buttons
	unconfirmed map[string]bool  // presses that the bot has not answered, by their ids
	pressedBy   map[string]int64 // who pressed, by the same ids

	queue     []update // not yet confirmed, by id
	confirmed []update // the last of those that were
	lastID    int64
	allowed   map[string]bool // nil: all
	poll      *poll           // the getUpdates that waits, if any
	webhook   webhook
	polls     []Poll // of programs that have a name

	drafts map[int64]Draft // by private chat

	lastEphemeral int64
	ephemeral     map[int64]ephemeral // messages by id, of people and of the bot

	before, after func(Message) Verdict
	edited        func(Message)
	failures      map[string][]Verdict // by method, consumed one a call
	chatRate      rate.Limit
	global        *rate.Limiter // nil: no limit
}

// update is one of the Bot API, as it goes over the wire.
type update struct {
	id  int64
	raw json.RawMessage
}

// chat is what the server knows of a place.
type chat struct {
	last       int64 // message id
	topics     map[int64]bool
	topicNames map[int64]string          // their first names
	authors    map[int64]User            // of what people said, and the bot
	said       map[int64]json.RawMessage // the messages themselves
	refusals   []Verdict                 // consumed one a message
	blocked    string                    // description of the 403
	closed     map[int64]bool            // topics
	migratedTo int64
	limiter    *rate.Limiter
	admins     []User
}

// Start serves at a TCP address, such as "127.0.0.1:0", until Close.
func Start(addr string) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("telegramtest: %w", err)
	}
	s := newBot("http://"+l.Addr().String(), &sharedState{bots: map[string]*Server{}, supergroups: map[int64]*chat{}}, Bot, Token)
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ConnState: s.countConnection}
	go s.http.Serve(l)
	return s, nil
}

func (s *Server) countConnection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// OpenConnections returns how many connections the server has accepted and not
// closed. Of a client that died, none is left once all that it sent is handled.
func (s *Server) OpenConnections() int { return int(s.open.Load()) }

// Close stops the server and drops its connections.
func (s *Server) Close() {
	s.mu.Lock()
	bots := slices.Collect(maps.Values(s.with.bots))
	s.mu.Unlock()
	for _, bot := range bots {
		bot.SetWebhook("")
		if bot.http != nil {
			bot.http.Close()
		}
	}
}

// TB is what New needs of a *testing.T.
type TB interface {
	Helper()
	Fatal(args ...any)
	Cleanup(func())
}

// New starts a server on a free loopback port for as long as the test runs.
func New(t TB) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// chatFor is the chat, which is known to the bot from now on.
func (s *Server) chatFor(c Chat) *chat {
	known := s.chats[c.ID]
	if known == nil {
		known = s.newChat(c)
		s.chats[c.ID] = known
	}
	return known
}

// AddChat makes a chat known to the bot without a word said.
func (s *Server) AddChat(c Chat, topics ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.chatFor(c)
	for _, topic := range topics {
		known.topics[topic] = true
	}
}

// NameTopic makes a topic known to the bot with the name that it was opened with,
// which nobody has told the bot.
func (s *Server) NameTopic(c Chat, topic int64, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.chatFor(c)
	known.topics[topic], known.topicNames[topic] = true, name
}

// Push appends an update as raw JSON, without its update_id, such as
// `{"poll": {"id": "1"}}`, whether the poller asked for its type or not.
func (s *Server) Push(raw string) (updateID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	rest := strings.TrimPrefix(strings.TrimSpace(raw), "{")
	sep := ","
	if strings.TrimSpace(rest) == "}" {
		sep = ""
	}
	s.add(update{s.lastID, fmt.Appendf(nil, `{"update_id":%d%s%s`, s.lastID, sep, rest)})
	return s.lastID
}

// PushWithoutID appends an update as raw JSON that has no update_id, which the
// real server never does. An offset behind a later update confirms it.
func (s *Server) PushWithoutID(raw string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	s.add(update{s.lastID, []byte(raw)})
}

// push appends an update if the poller wants its type.
func (s *Server) push(kind string, payload []byte) int64 {
	s.lastID++
	if s.allowed == nil || s.allowed[kind] {
		raw := make([]byte, 0, len(payload)+64)
		raw = fmt.Appendf(raw, `{"update_id":%d,"%s":`, s.lastID, kind)
		s.add(update{s.lastID, append(append(raw, payload...), '}')})
	}
	return s.lastID
}

func (s *Server) add(u update) {
	s.queue = append(s.queue, u)
	s.poll.wake()
	s.changed.Broadcast() // a webhook's goroutine waits for it
}

// Redeliver forgets that updates from an id on were confirmed: the next poll
// gets them again, under new update ids, so that no offset confirms them
// unseen. It returns how many there are.
func (s *Server) Redeliver(from int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.confirmed, func(u update) bool { return u.id >= from })
	if i < 0 {
		return 0
	}
	again := slices.Clone(s.confirmed[i:])
	s.confirmed = s.confirmed[:i]
	for n := range again {
		s.lastID++
		again[n] = again[n].renumbered(s.lastID)
	}
	s.queue = append(s.queue, again...)
	s.poll.wake()
	s.changed.Broadcast()
	return len(again)
}

func (u update) renumbered(id int64) update {
	old := fmt.Sprintf(`{"update_id":%d`, u.id)
	return update{id, append(fmt.Appendf(nil, `{"update_id":%d`, id), u.raw[len(old):]...)}
}

// OnSend sets functions that decide about every sendMessage that the server would take:
// before is called before the message is recorded, after when people already see it but the
// bot has no answer yet. Either may be nil or block, and is called without locks.
func (s *Server) OnSend(before, after func(Message) Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// OnEdit sets what is called with every message as an editMessageText has changed it.
func (s *Server) OnEdit(edited func(Message)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edited = edited
}

// Fail gives the verdict to the next n calls of a method.
func (s *Server) Fail(method string, v Verdict, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[method] = append(s.failures[method], slices.Repeat([]Verdict{v}, n)...)
}

// Refuse gives the verdict to the next n messages that the bot sends to a chat.
func (s *Server) Refuse(chatID int64, v Verdict, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chatFor(Chat{ID: chatID})
	c.refusals = append(c.refusals, slices.Repeat([]Verdict{v}, n)...)
}

// Block makes the chat answer 403 with a description, such as "bot was
// blocked by the user"; "" unblocks it.
func (s *Server) Block(chatID int64, description string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chatFor(Chat{ID: chatID}).blocked = description
}

// CloseTopic makes a topic answer 400 TOPIC_CLOSED.
func (s *Server) CloseTopic(chatID, topic int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chatFor(Chat{ID: chatID}).closed[topic] = true
}

// Migrate makes a group a supergroup with another id, which the answers tell.
func (s *Server) Migrate(from, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chatFor(Chat{ID: from}).migratedTo = to
	s.chatFor(Chat{ID: to})
}

// SetAdmins makes people the administrators of a group.
func (s *Server) SetAdmins(group Chat, admins ...User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chatFor(group).admins = admins
}

// LimitRates answers 429 to messages beyond these numbers per second, in one chat and
// over all; 0 is no limit. Chats that were limited before keep their limit.
func (s *Server) LimitRates(perChat, overAll float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chatRate, s.global = rate.Limit(perChat), nil
	if overAll > 0 {
		s.global = rate.NewLimiter(rate.Limit(overAll), max(1, int(overAll)))
	}
}

// Sent returns the messages that the server took, in order.
func (s *Server) Sent() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// SentTo returns the messages in one chat, in order.
func (s *Server) SentTo(chatID int64) []Message {
	return slices.DeleteFunc(s.Sent(), func(m Message) bool { return m.Chat != chatID })
}

// Calls returns how often a method was called, whatever the answer.
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Log returns the calls so far, except getUpdates and sendMessage.
func (s *Server) Log() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Commands returns the list of the last setMyCommands, as JSON.
func (s *Server) Commands() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commands
}

// GroupCommands returns the menu of groups, as JSON; "" = the same as elsewhere.
func (s *Server) GroupCommands() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groupCommands
}

// Pending returns the number of updates that are not confirmed yet.
func (s *Server) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// wait returns when done returns true, or with an error when ctx ends. It calls done after
// everything that the server does, with the lock held.
func (s *Server) wait(ctx context.Context, what string, done func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !done() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("telegramtest: waiting for %s: %w", what, err)
		}
		s.changed.Wait()
	}
	return nil
}

// WaitSent waits until the server took n messages in all, and returns them.
func (s *Server) WaitSent(ctx context.Context, n int) ([]Message, error) {
	err := s.wait(ctx, fmt.Sprintf("%d messages", n), func() bool { return len(s.sent) >= n })
	return s.Sent(), err
}

// WaitCalls waits until a method was called n times in all. What the last of these calls
// changes may not be seen yet.
func (s *Server) WaitCalls(ctx context.Context, method string, n int) error {
	return s.wait(ctx, fmt.Sprintf("%d calls of %s", n, method), func() bool { return s.calls[method] >= n })
}

// WaitCommands waits until there is a list of commands.
func (s *Server) WaitCommands(ctx context.Context) error {
	return s.wait(ctx, "commands", func() bool { return s.commands != "" })
}

// WaitGroupCommands waits until groups have a menu of their own, beside the one of all chats.
func (s *Server) WaitGroupCommands(ctx context.Context) error {
	return s.wait(ctx, "the commands of groups", func() bool { return s.commands != "" && s.groupCommands != "" })
}

// WaitConfirmed waits until every update so far is confirmed.
func (s *Server) WaitConfirmed(ctx context.Context) error {
	return s.wait(ctx, "the confirmation of all updates", func() bool { return len(s.queue) == 0 })
}

// WaitPolling waits until a getUpdates is open and has nothing to answer.
func (s *Server) WaitPolling(ctx context.Context) error {
	return s.wait(ctx, "a poller", func() bool { return s.poll != nil })
}
