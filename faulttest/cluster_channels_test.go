package faulttest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/channels/discord/discordtest"
	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/llm/llmtest"
)

// startBots starts gateways on one PostgreSQL database, each with its section of the configuration.
func startBots(t *testing.T, url string, model *llmtest.Server, sections ...string) (nodes []*node) {
	t.Helper()
	for _, section := range sections {
		n := &node{}
		n.Gateway = gatewaytest.New(t, gatewaytest.Options{Database: url, Config: fmt.Sprintf(
			"%s\n[llm]\nbase_url = %q\n[http]\nlisten = \"\"\n", section, model.URL())})
		nodes = append(nodes, n)
		n.start()
	}
	t.Cleanup(func() { expectOwnMessages(t, url) })
	return nodes
}

// rows reads a column of the database at url, as text.
func rows(t *testing.T, url, query string, args ...any) []string {
	t.Helper()
	conn := postgrestest.Connect(t, url)
	defer conn.Close(context.Background()) // a test may ask many times
	found, _ := conn.Query(t.Context(), query, args...)
	list, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// nodeTTL is the time after which the others may take over.
const nodeTTL = 5 * time.Second

// chatsUnderLoad is the number of chats in which people write while nodes are killed.
const chatsUnderLoad = 4

// telegramNodes are gateways that serve one Telegram bot.
type telegramNodes struct {
	t     *testing.T
	srv   *telegramtest.Server
	url   string
	model *llmtest.Server
	nodes []*node

	mu   sync.Mutex
	said map[int][]string // by chat, in order
}

func newTelegramNodes(t *testing.T, count int) *telegramNodes {
	t.Helper()
	url := postgrestest.Database(t)
	return newTelegramNodesAt(t, url, slices.Repeat([]string{url}, count)...)
}

// newTelegramNodesAt makes a gateway for each URL of a database.
func newTelegramNodesAt(t *testing.T, url string, urls ...string) *telegramNodes {
	t.Helper()
	c := &telegramNodes{t: t, srv: telegramtest.New(t), url: url, model: llmtest.New(t), said: map[int][]string{}}
	c.model.Quiet()
	c.model.Reply(answerTo)
	var sections []string
	for i, own := range urls {
		section := strings.Replace(telegram{c.srv, "0s"}.section(), c.srv.URL, c.srv.URLFor(programName(i)), 1)
		sections = append(sections, fmt.Sprintf("database = %q\n[log]\nlevel = \"debug\"\n%s", own, section))
	}
	c.nodes = startBots(t, c.url, c.model, sections...)
	return c
}

func programName(i int) string { return fmt.Sprint("node-", i) }

func (c *telegramNodes) say(chat int, text string) telegramtest.Message {
	c.mu.Lock()
	c.said[chat] = append(c.said[chat], text)
	c.mu.Unlock()
	said := c.srv.Say(telegramtest.Private(person(chat)), person(chat), text)
	return telegramtest.Message{Chat: int64(chat), ID: said.MessageID}
}

// poller returns the number of the node that polled last, -1 before the first poll.
func (c *telegramNodes) poller() int {
	polls := c.srv.Polls()
	return slices.IndexFunc(c.nodes, func(n *node) bool {
		return len(polls) > 0 && polls[len(polls)-1].Program == programName(slices.Index(c.nodes, n))
	})
}

// awaitOther waits until a node other than former polls, and returns its number.
func (c *telegramNodes) awaitOther(former int) (poller int) {
	c.t.Helper()
	gatewaytest.Await(c.t, "another poller", func() bool {
		poller = c.poller()
		return poller >= 0 && poller != former
	})
	return poller
}

// awaitAlive waits until all nodes serve.
func (c *telegramNodes) awaitAlive() {
	c.t.Helper()
	gatewaytest.Await(c.t, "all nodes", func() bool {
		return len(rows(c.t, c.url, `SELECT name FROM nodes WHERE dead_at IS NULL AND command = 'run'`)) == len(c.nodes)
	})
}

// talk has people write until the returned function is called.
func (c *telegramNodes) talk() (quiet func()) {
	writing, stop := context.WithCancel(c.t.Context())
	var people sync.WaitGroup
	for chat := range chatsUnderLoad {
		people.Go(func() {
			for i := 0; writing.Err() == nil; i++ {
				c.say(chat+1, fmt.Sprintf("c%dm%d", chat+1, i))
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
	return func() {
		stop()
		people.Wait()
	}
}

// awaitAnswers waits until replies name each message.
func (c *telegramNodes) awaitAnswers() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for chat, texts := range c.said {
		for _, text := range texts {
			gatewaytest.Await(c.t, fmt.Sprintf("the answer to %q in chat %d", text, chat), func() bool {
				return slices.ContainsFunc(c.srv.SentTo(int64(chat)), func(m telegramtest.Message) bool {
					return slices.Contains(strings.Fields(m.Text), text)
				})
			})
		}
	}
}

// expectStored checks that each message stands in its conversation once, in order.
func (c *telegramNodes) expectStored() {
	c.t.Helper()
	for chat, texts := range c.said {
		got := rows(c.t, c.url, `
			SELECT m.content FROM messages m JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
			WHERE s.key = $1 AND m.role = 'user' ORDER BY m.id`, fmt.Sprint("telegram:chat:", chat))
		if !slices.Equal(got, texts) {
			c.t.Errorf("chat %d: stored %q, want %q", chat, got, texts)
		}
	}
}

// term is a term of the role to poll.
type term struct {
	number  int
	program string
	taken   time.Time
}

var pollTaken = regexp.MustCompile(`time=(\S+) level=INFO msg="role taken" role=telegram:\S+:poll node=\d+ term=(\d+)`)

// terms returns the terms of the role to poll, in order, as the nodes have logged them.
func (c *telegramNodes) terms() (list []term) {
	c.t.Helper()
	for i, n := range c.nodes {
		for _, line := range pollTaken.FindAllStringSubmatch(n.Log.String(), -1) {
			at, err := time.Parse(time.RFC3339Nano, line[1])
			must(c.t, err)
			number, err := strconv.Atoi(line[2])
			must(c.t, err)
			list = append(list, term{number, programName(i), at})
		}
	}
	slices.SortFunc(list, func(a, b term) int { return a.number - b.number })
	return list
}

// expectOnePoller checks that the offset never went back, and that no node polled for longer than a TTL after another one had taken
// the role to do so.
func (c *telegramNodes) expectOnePoller() {
	c.t.Helper()
	terms := c.terms()
	offset := int64(0)
	for _, poll := range c.srv.Polls() {
		if poll.Offset < offset {
			c.t.Errorf("%s went back from the offset %d to %d", poll.Program, offset, poll.Offset)
		}
		offset = max(offset, poll.Offset)
		latest := -1 // of the program
		for i, term := range terms {
			if term.program == poll.Program && !term.taken.After(poll.At) {
				latest = i
			}
		}
		switch {
		case latest < 0:
			c.t.Errorf("%s polled without the role", poll.Program)
		case latest+1 < len(terms) && poll.At.Sub(terms[latest+1].taken) > nodeTTL:
			c.t.Errorf("%s polled %v after %s had taken the role", poll.Program, poll.At.Sub(terms[latest+1].taken), terms[latest+1].program)
		}
	}
}

// The node that polls is killed repeatedly while people write. Once it is paused, and continues after another node has
// taken over. Another node polls within seconds, two nodes poll at the same time for no longer than a TTL, the offset
// never goes back, and each message is answered, in order.
func TestClusterPollerIsKilled(t *testing.T) {
	t.Parallel()
	c := newTelegramNodes(t, 3)
	poller := c.awaitOther(-1)
	quiet := c.talk()
	defer quiet()
	for range clusterRounds(t, 2) {
		c.nodes[poller].process.Kill()
		killed, former := time.Now(), poller
		poller = c.awaitOther(former)
		t.Logf("%s took over from %s after %v", programName(poller), programName(former), time.Since(killed).Round(time.Millisecond))
		c.nodes[former].start()
	}
	stopped := poller
	c.nodes[stopped].process.Signal(syscall.SIGSTOP)
	poller = c.awaitOther(stopped)
	before, terms := len(c.srv.Polls()), len(c.terms())
	c.nodes[stopped].process.Signal(syscall.SIGCONT)
	quiet()
	c.awaitAnswers()
	hasItAgain := slices.ContainsFunc(c.terms()[terms:], func(t term) bool { return t.program == programName(stopped) })
	for _, poll := range c.srv.Polls()[before:] {
		if poll.Program == programName(stopped) && !hasItAgain { // which the others give it if they starve
			t.Errorf("%s polls although %s has taken over", poll.Program, programName(poller))
			break
		}
	}
	c.expectOnePoller()
	c.expectStored()
	c.awaitAlive() // a node that has not yet started can't be stopped in order
	for _, n := range c.nodes {
		n.process.Stop()
	}
	if left := rows(t, c.url, `SELECT name FROM roles WHERE name LIKE '%:poll' AND node_id IS NOT NULL`); len(left) > 0 {
		t.Errorf("nodes that have ended in order leave the roles %q", left)
	}
}

// The node that polls loses the database, and still reaches Telegram: it stops polling and sending, and another one goes on.
func TestClusterPollerLosesTheDatabase(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	proxies := []*postgrestest.Proxy{postgrestest.NewProxy(t, url), postgrestest.NewProxy(t, url)}
	c := newTelegramNodesAt(t, url, proxies[0].URL(), proxies[1].URL())
	poller := c.awaitOther(-1)
	c.awaitAlive()
	quiet := c.talk()
	defer quiet()
	for range clusterRounds(t, 1) {
		for _, cut := range []func(*postgrestest.Proxy){(*postgrestest.Proxy).Interrupt, (*postgrestest.Proxy).Hang} {
			former := poller
			cut(proxies[former])
			c.awaitOther(former)
			proxies[former].Resume()
			c.awaitAlive()
			poller = c.poller()
		}
	}
	quiet()
	c.awaitAnswers()
	c.expectOnePoller()
	c.expectStored()
}

// One node works a session, and the updates of its person arrive at another one: the edit of a waiting message, a /stop,
// and the press of a button.
func TestClusterPassesUpdatesToTheNodeThatWorksTheSession(t *testing.T) {
	t.Parallel()
	c := newTelegramNodes(t, 2)
	held := newGate(t)
	c.model.Reply(func(call llmtest.Call) llmtest.Answer {
		if strings.Contains(call.Messages[len(call.Messages)-1].Content, "long") {
			held.pass()
		}
		return answerTo(call)
	})
	c.awaitOther(-1)
	c.awaitAlive()
	chat := c.chatElsewhere("long")
	waits := c.say(chat, "wrong")
	c.srv.Edit(telegramtest.Private(person(chat)), person(chat), waits.ID, "right", time.Now().Add(time.Second))
	gatewaytest.Await(t, "the edit", func() bool {
		return len(rows(t, c.url, `SELECT text FROM inbox WHERE text = 'right'`)) == 1
	})
	c.say(chat, "/stop")
	gatewaytest.Await(t, "the end of the run", func() bool {
		return slices.ContainsFunc(c.srv.SentTo(int64(chat)), func(m telegramtest.Message) bool { return strings.Contains(m.Text, "topped") })
	})
	held.Open()
	c.say(chat, "next")
	gatewaytest.Await(t, "the next answer", func() bool {
		return slices.ContainsFunc(c.srv.SentTo(int64(chat)), func(m telegramtest.Message) bool { return slices.Contains(strings.Fields(m.Text), "next") })
	})
	for _, m := range c.srv.SentTo(int64(chat)) {
		if strings.Contains(m.Text, "wrong") {
			t.Errorf("the answer %q does not know of the edit", m.Text)
		}
	}

	c.say(chat, "/clear")
	var asks telegramtest.Message
	gatewaytest.Await(t, "a button", func() bool {
		sent := c.srv.SentTo(int64(chat))
		asks = sent[len(sent)-1]
		return len(asks.Buttons) > 0
	})
	c.srv.Press(person(chat), asks.ID, asks.Buttons[0].Text)
	gatewaytest.Await(t, "the answer to the press", func() bool {
		return slices.ContainsFunc(c.srv.SentTo(int64(chat)), func(m telegramtest.Message) bool { return m.ID == asks.ID && m.Edits > 0 })
	})
}

// chatElsewhere writes a text, whose answer the test holds back, in one chat after the other, until a session is worked by
// another node than the one that polls, which may need a second to know of the other. It returns that chat.
func (c *telegramNodes) chatElsewhere(text string) int {
	c.t.Helper()
	chat := 99
	gatewaytest.Await(c.t, "a session that the node which polls does not work", func() bool {
		chat++
		c.say(chat, text)
		var owner []string
		gatewaytest.Await(c.t, "the owner of a session", func() bool {
			owner = rows(c.t, c.url, `SELECT owner::text FROM sessions WHERE key = $1 AND owner IS NOT NULL`, fmt.Sprint("telegram:chat:", chat))
			return len(owner) > 0
		})
		return !slices.Equal(owner, rows(c.t, c.url, `SELECT node_id::text FROM roles WHERE name LIKE 'telegram:%:poll'`))
	})
	return chat
}

// Sixteen shards are spread over three gateways. One is killed, and starts anew: all shards are served again, no node has
// more than its share, sessions begin at the pace that Discord allows, and messages from the meantime are answered once.
func TestClusterSpreadsShards(t *testing.T) {
	t.Parallel()
	const shards, part = 16, 6
	srv := discordtest.NewWith(t, discordtest.Config{Shards: shards, MaxConcurrency: 8})
	url, model := postgrestest.Database(t), llmtest.New(t)
	model.Quiet()
	model.Reply(answerTo)
	ann := srv.Person("Ann")
	var rooms []discordtest.Channel
	for i := range shards {
		rooms = append(rooms, srv.Channel(srv.Guild(fmt.Sprint("Server ", i)), "general"))
	}
	said := 0
	say := func() {
		said++
		for _, room := range rooms {
			srv.Say(room, ann, fmt.Sprintf("%s m%d", discordtest.Bot.Mention(), said))
		}
	}
	awaitAnswers := func() {
		t.Helper()
		for i, room := range rooms {
			for m := 1; m <= said; m++ {
				text := fmt.Sprint("m", m)
				answers := func() (n int) {
					for _, reply := range srv.SentTo(room) {
						if !strings.Contains(reply.Content, previewMark) && slices.Contains(strings.Fields(reply.Content), text) {
							n++
						}
					}
					return n
				}
				gatewaytest.Await(t, fmt.Sprintf("the answer to %s in server %d", text, i), func() bool { return answers() > 0 })
				if n := answers(); n > 1 {
					t.Errorf("%s in server %d is answered %d times", text, i, n)
				}
			}
		}
	}
	section := (&discord{Server: srv}).section()
	nodes := startBots(t, url, model, section, section, section)
	awaitShards(t, srv, url, shards, part)
	say()
	awaitAnswers() // from now on the bot knows the channels, in which missed messages are looked for
	for round := range clusterRounds(t, 1) {
		victim := nodes[round%len(nodes)]
		victim.process.Kill()
		say()
		awaitShards(t, srv, url, shards, shards/2)
		victim.start()
		say()
		awaitShards(t, srv, url, shards, part)
	}
	say()
	awaitAnswers()
	if v := srv.Violations(); len(v) > 0 {
		t.Errorf("Discord would refuse the request: %q", v)
	}
	for _, n := range nodes {
		n.process.Stop()
	}
}

// awaitShards waits until all shards have a session, and no node has more than part of them.
func awaitShards(t *testing.T, srv *discordtest.Server, url string, shards, part int) {
	t.Helper()
	gatewaytest.Await(t, fmt.Sprintf("%d shards, at most %d at a node", shards, part), func() bool {
		if up := srv.Shards(); len(slices.Compact(up)) < shards {
			return false
		}
		held := rows(t, url, `
			SELECT count(*)::text FROM roles JOIN nodes ON nodes.id = roles.node_id AND nodes.dead_at IS NULL
			WHERE roles.name LIKE 'discord:%:shard:%' GROUP BY node_id`)
		return len(held) == (shards+part-1)/part && !slices.ContainsFunc(held, func(n string) bool {
			count := 0
			fmt.Sscan(n, &count)
			return count > part
		})
	})
}
