package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// step is a step of a message's way at which chats are held.
type step int

const (
	inTheModelCall step = iota
	whileTheAnswerStreams
	beforeTheCommit
	beforeTheReply // is taken by the platform
	beforeTheMark  // that the platform has taken it
	betweenTheParts
	steps
)

// stepOf returns the step at which a chat is held.
func stepOf(chat int) step { return step(chat) % steps }

// heldChats are Telegram chats that nodes of a cluster answer, held at all steps of a message's way at once.
type heldChats struct {
	*telegramNodes
	chats  []int
	opened <-chan struct{} // closed when nothing is held any more
	open   func()

	mu      sync.Mutex
	reached map[int]bool
}

// holdChats sets what the model and the platform do. The messages that it holds are "cCHATm0"; each chat is held once.
func holdChats(c *telegramNodes, chats []int) *heldChats {
	h := &heldChats{telegramNodes: c, chats: chats, reached: map[int]bool{}}
	h.opened, h.open = waittest.Gate(c.t)
	c.model.Reply(func(call llmtest.Call) llmtest.Answer {
		a := answerTo(call)
		chat, first := heldBy(call.LastUser())
		switch {
		case !first || !slices.Contains(h.chats, chat):
		case stepOf(chat) == inTheModelCall:
			h.hold(chat)
		case stepOf(chat) == whileTheAnswerStreams && h.reach(chat):
			a.Pieces, a.ChunkDelay = 2, 2*time.Second // the chats of nodes that live on wait for the rest
		case stepOf(chat) == beforeTheCommit:
			h.reach(chat)
		case stepOf(chat) == betweenTheParts && strings.TrimPrefix(a.Text, "re ") == call.LastUser():
			full := telegram{}.partLength() - len(a.Text) - 1
			a.Text = fmt.Sprintf("%s %s\n\n%s", a.Text, strings.Repeat("x", full), strings.Repeat("y", full))
		}
		return a
	})
	telegram{Server: c.srv}.onSend(
		func(chat int, text string) verdict { return h.onSend(chat, text, beforeTheReply, betweenTheParts) },
		func(chat int, text string) verdict { return h.onSend(chat, text, beforeTheMark) })
	return h
}

// heldBy returns the chat of a message that is held in the end.
func heldBy(text string) (chat int, first bool) {
	var number int
	_, err := fmt.Sscanf(text, "c%dm%d", &chat, &number)
	return chat, err == nil && number == 0
}

// reach notes that a chat has come to its step, and reports whether it does so for the first time.
func (h *heldChats) reach(chat int) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = !h.reached[chat]
	h.reached[chat] = true
	return first
}

func (h *heldChats) hold(chat int) {
	h.reach(chat)
	<-h.opened
}

// onSend holds the sending of the first reply of chats with some steps. The platform closes the connection then, so that
// the node which has sent it hears nothing.
func (h *heldChats) onSend(chat int, text string, at ...step) verdict {
	if !slices.Contains(h.chats, chat) || !slices.Contains(at, stepOf(chat)) || strings.HasSuffix(text, telegramPreview) ||
		stepOf(chat) == betweenTheParts && !strings.HasPrefix(text, "y") {
		return answered
	}
	if !h.reach(chat) {
		return answered
	}
	<-h.opened
	return dropped
}

// awaitSteps has the people of the chats write, and waits until all chats are at their steps. While locked, no node can
// store a run.
func (h *heldChats) awaitSteps(locked func() (unlock func())) (unlock func()) {
	h.t.Helper()
	say := func(now func(step) bool) {
		for _, chat := range h.chats {
			if now(stepOf(chat)) {
				h.say(chat, fmt.Sprintf("c%dm0", chat))
			}
		}
		for _, chat := range h.chats {
			if now(stepOf(chat)) {
				gatewaytest.Await(h.t, fmt.Sprintf("chat %d at step %d", chat, stepOf(chat)), func() bool {
					h.mu.Lock()
					defer h.mu.Unlock()
					return h.reached[chat]
				})
			}
		}
	}
	say(func(s step) bool { return s != beforeTheCommit })
	unlock = locked()
	say(func(s step) bool { return s == beforeTheCommit })
	gatewaytest.Await(h.t, "a commit", func() bool {
		return len(rows(h.t, h.url, `SELECT pid::text FROM pg_locks WHERE NOT granted AND relation = 'runs'::regclass`)) > 0
	})
	return unlock
}

// lockRuns keeps all nodes from storing runs.
func (c *telegramNodes) lockRuns() (unlock func()) {
	c.t.Helper()
	conn := postgrestest.Connect(c.t, c.url)
	_, err := conn.Exec(context.Background(), `BEGIN; LOCK TABLE runs IN SHARE MODE`)
	must(c.t, err)
	return func() {
		_, err := conn.Exec(context.Background(), `ROLLBACK`)
		must(c.t, err)
	}
}

// expectReplies checks that the replies in the held chats name each message once, in order. Only what was taken by the platform and
// not yet marked may come again.
func (h *heldChats) expectReplies() {
	h.t.Helper()
	for _, chat := range h.chats {
		var named []string
		for _, m := range h.srv.SentTo(int64(chat)) {
			if strings.HasSuffix(m.Text, telegramPreview) {
				continue // what a node has left that died while it wrote
			}
			for _, word := range strings.Fields(m.Text) {
				if strings.HasPrefix(word, "c") {
					named = append(named, word)
				}
			}
		}
		if stepOf(chat) == beforeTheMark && len(named) > 1 && named[0] == named[1] {
			named = named[1:]
		}
		if !slices.Equal(named, h.said[chat]) {
			h.t.Errorf("chat %d, held at step %d: the replies name %q, want %q", chat, stepOf(chat), named, h.said[chat])
		}
	}
}

// A node is killed, or paused until the others have taken over, while it works on chats at each step of a message's way. The others
// accept what is said next, and answer all of it, once and in order. The node that was paused then goes on with what it was about to do:
// nothing of it is stored, and nothing is sent twice.
func TestClusterLosesANodeAtEveryStep(t *testing.T) {
	t.Parallel()
	c := newTelegramNodes(t, 3)
	c.awaitOther(-1)
	c.awaitAlive()
	for round := range clusterRounds(t, 1) {
		for i, paused := range []bool{false, true} {
			var chats []int
			for n := range 3 * int(steps) { // each node is likely to have one at each step
				chats = append(chats, 1000*(2*round+i+1)+n)
			}
			h := holdChats(c, chats)
			unlock := h.awaitSteps(c.lockRuns)
			victim := c.nodes[rand.IntN(len(c.nodes))]
			before := len(rows(t, c.url, buriedNames))
			if paused {
				victim.process.Signal(syscall.SIGSTOP)
			} else {
				victim.process.Kill()
			}
			unlock()
			for _, chat := range chats {
				c.say(chat, fmt.Sprintf("c%dm1", chat))
			}
			gatewaytest.Await(t, "the death of the node", func() bool { return len(rows(t, c.url, buriedNames)) > before })
			h.open()
			if paused {
				c.awaitAnswers()
				victim.process.Signal(syscall.SIGCONT)
			} else {
				victim.start()
			}
			c.awaitAlive()
			for _, chat := range chats {
				c.say(chat, fmt.Sprintf("c%dm2", chat))
			}
			c.awaitAnswers()
			h.expectReplies()
		}
	}
	c.expectStored()
}

const buriedNames = `SELECT name FROM nodes WHERE dead_at IS NOT NULL AND command = 'run'`

// The connection of a node breaks during a COMMIT, again and again, before or after the server has carried it out.
func TestClusterLosesCommits(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	proxies := []*postgrestest.Proxy{postgrestest.NewProxy(t, url), postgrestest.NewProxy(t, url)}
	g := newCluster(t, url, proxies[0].URL(), proxies[1].URL())
	quiet := g.talk(4)
	defer quiet()
	for i := range 12 * clusterRounds(t, 1) {
		proxies[i%2].LoseCommit(i/2%2 == 0)
		g.answeredMore(4)
	}
	quiet()
	g.expectOnce()
}
