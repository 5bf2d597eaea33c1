package faulttest

import (
	"context"
	"fmt"
	"slices"
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

// startBots makes gateways on one PostgreSQL database, with a section of the configuration for each, and starts them.
func startBots(t *testing.T, url string, model *llmtest.Server, sections ...string) (nodes []*node) {
	t.Helper()
	for _, section := range sections {
		n := &node{}
		n.Gateway = gatewaytest.New(t, gatewaytest.Options{Database: url, Config: fmt.Sprintf(
			"[llm]\nbase_url = %q\n[http]\nlisten = \"\"\n%s", model.URL(), section)})
		nodes = append(nodes, n)
		n.start()
	}
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

const (
	nodeTTL   = 5 * time.Second  // after which the others may take over
	takesOver = 7 * time.Second  // the longest that a takeover takes, on a machine that is not busy
	slack     = 60 * time.Second // of one that is
)

// writingChats are the chats in which people write while nodes are killed.
const writingChats = 4

// telegramNodes are gateways that serve one Telegram bot.
type telegramNodes struct {
	t     *testing.T
	srv   *telegramtest.Server
	url   string
	model *llmtest.Server
	nodes []*node
	ended map[string][]time.Time // when the program of a node was killed or stopped

	mu   sync.Mutex
	said map[int][]string // by chat, in order
}

func newTelegramNodes(t *testing.T, count int) *telegramNodes {
	t.Helper()
	c := &telegramNodes{t: t, srv: telegramtest.New(t), url: postgrestest.Database(t), model: llmtest.New(t), ended: map[string][]time.Time{}, said: map[int][]string{}}
	c.model.Quiet()
	c.model.Reply(answerTo)
	var sections []string
	for i := range count {
		sections = append(sections, strings.Replace(telegram{c.srv, "0s"}.section(), c.srv.URL, c.srv.URLFor(programName(i)), 1))
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

// awaitOther waits until another node than one polls.
func (c *telegramNodes) awaitOther(former int) (poller int) {
	c.t.Helper()
	gatewaytest.Await(c.t, "another poller", func() bool {
		poller = c.poller()
		return poller >= 0 && poller != former
	})
	return poller
}

// end notes that a node polls no longer.
func (c *telegramNodes) end(n int) {
	c.ended[programName(n)] = append(c.ended[programName(n)], time.Now())
}

// awaitAnswers waits until a reply names each message that was said.
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

// expectOnePoller checks that the offset never went back, and that two nodes polled at the same time for no longer
// than a TTL: a node that polls again after another one began to do so without that one's end.
func (c *telegramNodes) expectOnePoller() {
	c.t.Helper()
	polls := c.srv.Polls()
	offset := int64(0)
	for _, poll := range polls {
		if poll.Offset < offset {
			c.t.Errorf("%s went back from the offset %d to %d", poll.Program, offset, poll.Offset)
		}
		offset = max(offset, poll.Offset)
	}
	began := map[string]time.Time{} // by program, when it began to poll since it last ended
	for i, poll := range polls {
		if i == 0 || polls[i-1].Program == poll.Program {
			continue
		}
		former := polls[i-1]
		since, polledBefore := began[poll.Program]
		began[former.Program] = former.At
		hasEnded := slices.ContainsFunc(c.ended[former.Program], func(at time.Time) bool { return at.After(since) && at.Before(poll.At) })
		if polledBefore && !hasEnded && poll.At.Sub(since) > nodeTTL {
			c.t.Errorf("%s and %s polled at the same time for %v", former.Program, poll.Program, poll.At.Sub(since))
		}
	}
}

// The node that polls is killed, again and again, while people write, and once it is stopped and goes on after another
// has taken over. Another node polls within seconds, never two do so for long, the offset never goes back, and
// each message is answered, in order.
func TestClusterPollerIsKilled(t *testing.T) {
	t.Parallel()
	c := newTelegramNodes(t, 3)
	poller := c.awaitOther(-1)
	writing, stop := context.WithCancel(t.Context())
	var people sync.WaitGroup
	for chat := range writingChats {
		people.Go(func() {
			for i := 0; writing.Err() == nil; i++ {
				c.say(chat+1, fmt.Sprintf("c%dm%d", chat+1, i))
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
	for range clusterRounds(t, 2) {
		c.nodes[poller].process.Kill()
		c.end(poller)
		killed, former := time.Now(), poller
		poller = c.awaitOther(former)
		took := time.Since(killed)
		t.Logf("%s took over from %s after %v", programName(poller), programName(former), took.Round(time.Millisecond))
		if took > takesOver+slack {
			t.Errorf("a takeover took %v", took)
		}
		c.nodes[former].start()
	}
	stopped := poller
	c.nodes[stopped].process.Signal(syscall.SIGSTOP)
	c.end(stopped)
	poller = c.awaitOther(stopped)
	before := len(c.srv.Polls())
	c.nodes[stopped].process.Signal(syscall.SIGCONT)
	stop()
	people.Wait()
	c.awaitAnswers()
	for _, poll := range c.srv.Polls()[before:] {
		if poll.Program == programName(stopped) {
			t.Errorf("%s polls although %s has taken over", poll.Program, programName(poller))
			break
		}
	}
	c.expectOnePoller()
	c.expectStored()
	gatewaytest.Await(t, "all nodes", func() bool { // one that has not yet started can't be stopped in order
		return len(rows(t, c.url, `SELECT name FROM nodes WHERE dead_at IS NULL AND command = 'run'`)) == len(c.nodes)
	})
	for _, n := range c.nodes {
		n.process.Stop()
	}
}

// A session is at work on one node, and what its person does arrives at another one: the edit of a message that
// waits, a /stop, and the press of a button.
func TestClusterChatIsWorkedByAnotherNodeThanPolls(t *testing.T) {
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
	gatewaytest.Await(t, "both nodes", func() bool {
		return len(rows(t, c.url, `SELECT name FROM nodes WHERE dead_at IS NULL AND command = 'run'`)) == len(c.nodes)
	})
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

// chatElsewhere says a text, to which the model does not answer yet, in one chat after the other, until a session is at work at
// another node than the one that polls.
func (c *telegramNodes) chatElsewhere(text string) int {
	c.t.Helper()
	for chat := 100; chat < 150; chat++ {
		c.say(chat, text)
		var owner []string
		gatewaytest.Await(c.t, "the owner of a session", func() bool {
			owner = rows(c.t, c.url, `SELECT owner::text FROM sessions WHERE key = $1 AND owner IS NOT NULL`, fmt.Sprint("telegram:chat:", chat))
			return len(owner) > 0
		})
		if poller := rows(c.t, c.url, `SELECT node_id::text FROM roles WHERE name LIKE 'telegram:%:poll'`); !slices.Equal(owner, poller) {
			return chat
		}
	}
	c.t.Fatal("the node that polls works all sessions")
	return 0
}

// Sixteen shards are spread over three gateways. One is killed, and starts anew: all shards are served
// again, no node has more than its part, sessions begin at Discord's pace, which the server enforces, and what was
// said in every server meanwhile is answered, once.
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
		t.Errorf("Discord would call malformed: %q", v)
	}
	for _, n := range nodes {
		n.process.Stop()
	}
}

// awaitShards waits until all shards have a session, and no node has more than its part of them.
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
