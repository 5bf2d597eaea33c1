package agentloop

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cluster"
	"parley/cluster/clustertest"
	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// nodes are routers that share a store. The claims of sessions and the notices are those of a real
// PostgreSQL.
type nodes struct {
	*harness // the node a
	b        *harness
	proxyB   *postgrestest.Proxy // between the node b and the claims
	a, nodeB *cluster.Node
	told     chan struct{} // b got a notice of a session
	url      string        // of the claims and the notices
}

func newNodes(t *testing.T, change func(*Deps)) nodes {
	t.Helper()
	storetest.NeedsSQLite(t) // a store on PostgreSQL has a node of its own
	url := clustertest.Database(t)
	path := filepath.Join(t.TempDir(), "shared.db")
	proxy := postgrestest.NewProxy(t, url)
	var n nodes
	var storeA, storeB *conversation.Store
	storeA, n.a = openNode(t, path, url, "a")
	storeB, n.nodeB = openNode(t, path, proxy.URL(), "b")
	n.proxyB, n.url = proxy, url
	n.harness = newHarnessOn(t, storeA, change)
	n.b = newHarnessOn(t, storeB, change)
	n.told = make(chan struct{}, 100)
	n.nodeB.Subscribe(sessionTopic, func(cluster.Notice) { n.told <- struct{}{} })
	until(t, "they know each other", func() bool { return knowsServing(n.a) == 2 && knowsServing(n.nodeB) == 2 })
	return n
}

// knowsServing returns how many serving nodes a node knows of.
func knowsServing(node *cluster.Node) (n int) {
	for _, m := range node.Live() {
		if m.Slots > 0 {
			n++
		}
	}
	return n
}

func openNode(t *testing.T, path, url, name string) (*conversation.Store, *cluster.Node) {
	t.Helper()
	node := clustertest.Join(t, url, name)
	store := storetest.Open(t, path)
	store.Join(node)
	return store, node
}

// own makes a node claim a session. So no sweep of the other node takes it first on a slow machine. After release,
// the node's loop alone decides how long it keeps the session.
func own(t *testing.T, node *cluster.Node, key conversation.Key) (release func()) {
	t.Helper()
	release, err := node.Claim(t.Context(), string(key))
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// hang makes the model of a node answer a message only when answer is called or the test ends. asked waits until
// the model is called.
func (h *harness) hang(text string) (asked, answer func()) {
	started := make(chan struct{}, 10)
	end, answer := waittest.Gate(h.t)
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if strings.Contains(c.Messages[len(c.Messages)-1].Content, text) {
			started <- struct{}{}
			<-end
		}
		return llmtest.Echo(c)
	})
	return func() { h.t.Helper(); waittest.Receive(h.t, started, "the model is asked") }, answer
}

// One node works a session, and the next message arrives at another node: the first node answers both in order, and
// the other one does nothing.
func TestMessageReachesTheNodeThatWorksItsSession(t *testing.T) {
	t.Parallel()
	n := newNodes(t, nil)
	asked, answer := n.b.hang("first")
	defer own(t, n.nodeB, room)()
	n.b.say(room, "the first")
	asked()
	n.said = 1 // source ids are unique in the channel
	n.say(room, "the second")
	waittest.Receive(t, n.told, "b is told of the session")
	answer()
	for _, want := range []string{"echo: the first", "echo: the second"} {
		if got := n.b.reply(room); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if len(n.server.Calls()) > 0 {
		t.Error("the node a has called the model")
	}
	if want := []string{"user: the first", "assistant: echo: the first", "user: the second", "assistant: echo: the second"}; !slices.Equal(n.history(room), want) {
		t.Errorf("%q", n.history(room))
	}
}

// Somebody stops a run by a message that arrives on another node, or by its number.
func TestRunIsStoppedFromAnotherNode(t *testing.T) {
	t.Parallel()
	n := newNodes(t, nil)
	asked, _ := n.b.hang("story")
	defer own(t, n.nodeB, room)()
	n.b.say(room, "a long story")
	asked()
	n.said = 1
	n.say(room, "/stop")
	if got := n.b.reply(room); !strings.Contains(got, "topped") {
		t.Errorf("after a /stop on the other node: %q", got)
	}
	n.b.said = 2
	n.b.say(room, "another story")
	asked()
	n.router.Cancel(room, 3)
	if got := n.b.reply(room); !strings.Contains(got, "topped") {
		t.Errorf("after the other node has cancelled the run: %q", got)
	}
}

// Somebody deletes a message while a node answers it, and another node hears of that.
func TestRunEndsWhenAnotherNodeHearsOfTheDeletion(t *testing.T) {
	t.Parallel()
	n := newNodes(t, nil)
	asked, _ := n.b.hang("story")
	defer own(t, n.nodeB, room)()
	n.b.say(room, "a long story")
	asked()
	key, err := n.store.Withdraw(t.Context(), conversation.Account{Channel: "cli"}, "1")
	if err != nil {
		t.Fatal(err)
	}
	n.router.Withdrawn(key, "1")
	if got := n.b.ask(room, "hello"); got != "echo: hello" {
		t.Errorf("the next message is answered with %q", got)
	}
}

// A run waits at one node until a person allows a tool call, and the person's answer arrives at another node.
func TestCallIsAllowedFromAnotherNode(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t) // likewise
	url, path := clustertest.Database(t), filepath.Join(t.TempDir(), "shared.db")
	storeA, a := openNode(t, path, url, "a")
	storeB, b := openNode(t, path, url, "b")
	until(t, "they know each other", func() bool { return len(a.Live()) == 2 && len(b.Live()) == 2 })
	other, working := newApprovalHarness(t, storeA, nil, nil), newApprovalHarness(t, storeB, nil, nil)
	defer own(t, b, room)()
	working.accept(working.from("ann", "pay the bill"))
	if got := working.reply(room); !strings.Contains(got, "/approve 1") {
		t.Fatalf("the question: %q", got)
	}
	other.said = 1 // source ids are unique in the channel
	other.accept(other.from("ann", "/approve 1"))
	if got := working.reply(room); !strings.HasPrefix(got, "✅ Allowed by Ann") {
		t.Errorf("the approval is acknowledged with %q", got)
	}
	if got := working.reply(room); got != saysPaid5 {
		t.Errorf("the reply: %q", got)
	}
	if here, there := len(other.calls()), len(working.calls()); here != 0 || there != 1 {
		t.Errorf("the tool was called %d times at the other node, and %d times where the run waited", here, there)
	}
}

// The node at which a run waits for an answer is gone, and nobody answers: the other node closes the question when its time
// is over, and the chat gets its answer.
func TestQuestionOfAnotherNodeExpires(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t) // likewise
	url, path := clustertest.Database(t), filepath.Join(t.TempDir(), "shared.db")
	storeA, a := openNode(t, path, url, "a")
	storeB, b := openNode(t, path, url, "b")
	until(t, "they know each other", func() bool { return len(a.Live()) == 2 && len(b.Live()) == 2 })
	soon := func(d *Deps) { d.Approvals.ApproveTimeout = 3 * time.Second }
	left, working := newApprovalHarness(t, storeA, soon, nil), newApprovalHarness(t, storeB, soon, nil)
	release := own(t, b, room)
	working.accept(working.from("ann", "pay the bill"))
	if got := working.reply(room); !strings.Contains(got, "/approve 1") {
		t.Fatalf("the question: %q", got)
	}
	release()
	working.end()
	if got := left.reply(room); !strings.HasPrefix(got, "⌛ `pay` was not allowed within") {
		t.Errorf("when the time is over: %q", got)
	}
	if got := left.reply(room); got != "It says "+callExpired {
		t.Errorf("the answer: %q", got)
	}
}

// The node that answers is cut off from the database: it stops, and the other one answers, without a new
// message.
func TestWaitingMessageIsAnsweredByAnotherNode(t *testing.T) {
	t.Parallel()
	n := newNodes(t, nil)
	asked, _ := n.b.hang("hello")
	release := own(t, n.nodeB, room)
	n.b.say(room, "hello")
	asked()
	release()
	n.proxyB.Interrupt()
	if got := n.reply(room); !strings.Contains(got, "echo: hello") {
		t.Errorf("%q", got)
	}
	n.b.mu.Lock()
	defer n.b.mu.Unlock()
	if len(n.b.runs) > 0 {
		t.Error("the node that was cut off has stored a run")
	}
}

// Every notice is lost: the sweep of a node finds the message.
func TestMessageIsFoundWithoutNotices(t *testing.T) {
	t.Parallel()
	n := newNodes(t, nil)
	n.proxyB.DropNotices()
	asked, answer := n.b.hang("first")
	release := own(t, n.nodeB, room)
	n.b.say(room, "the first")
	asked()
	release()
	n.said = 1
	n.say(room, "the second")
	answer()
	n.b.reply(room)
	go func() { // either node answers
		select {
		case <-n.wrote:
			n.b.wrote <- struct{}{}
		case <-t.Context().Done():
		}
	}()
	if got := n.b.reply(room); !strings.Contains(got, "echo: the second") {
		t.Errorf("%q", got)
	}
}

// Sessions of a channel whose messages arrive on one node are worked by all nodes.
func TestSessionsSpreadOverNodes(t *testing.T) {
	t.Parallel()
	n := newNodes(t, func(d *Deps) { d.Spread = func(conversation.Key) bool { return true } })
	placed := map[int64][]conversation.Key{}
	for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		key := conversation.Key("cli:" + name)
		place, _ := n.a.Place(string(key))
		placed[place.ID] = append(placed[place.ID], key)
	}
	for node, server := range map[*cluster.Node]*llmtest.Server{n.a: n.server, n.nodeB: n.b.server} {
		for _, key := range placed[node.ID()] { // on a slow machine, a sweep of the other node takes the first ones
			n.say(key, "hello")
			until(t, "an answer", func() bool {
				due, err := n.store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: key, Ready: true, Limit: 1})
				return err == nil && len(due) == 1
			})
			if len(server.Calls()) > 0 {
				break
			}
		}
		if len(server.Calls()) == 0 {
			t.Errorf("node %d answers none of %q", node.ID(), placed[node.ID()])
		}
	}
}

// Another node was told of a message, and gives the session up without having answered: the node at which the message has arrived
// takes it with its next look, and does not leave it to others first.
func TestMessageThatAnotherNodeLeftIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	n := newNodes(t, nil)
	third := clustertest.Join(t, n.url, "c") // which answers nothing
	release := own(t, third, room)
	n.say(room, "hello")
	until(t, "the third node is told", func() bool { return n.router.swept.wasForwarded(room) })
	if !n.router.takesAtOnce(room, false) || n.b.router.takesAtOnce(room, false) {
		t.Error("the session is not left to the node that has told another one of it")
	}
	release()
	until(t, "the answer", func() bool { return slices.Equal(n.history(room), []string{"user: hello", "assistant: echo: hello"}) })
	until(t, "the end of what was told", func() bool { return !n.router.swept.wasForwarded(room) })
}

// A page on one node changes a session that another one works: it waits until the run has ended.
func TestChangeWaitsForTheRunOnAnotherNode(t *testing.T) {
	t.Parallel()
	n := newNodes(t, nil)
	asked, answer := n.b.hang("hello")
	release := own(t, n.nodeB, room)
	n.b.say(room, "hello")
	asked()
	release()
	archived := make(chan error, 1)
	go func() { archived <- n.archiveOutside(t.Context(), room) }()
	select {
	case <-archived:
		t.Fatal("the conversation was archived during a run")
	case <-time.After(300 * time.Millisecond):
	}
	answer()
	n.b.reply(room)
	if err := waittest.Receive(t, archived, "the conversation is archived"); err != nil {
		t.Fatal(err)
	}
}

// A node drains while it answers: it finishes that run. The other node answers the message that waits, and what
// arrives later, wherever that is.
func TestDrainingNodeHandsItsSessionsOver(t *testing.T) {
	t.Parallel()
	n := newNodes(t, nil)
	asked, answer := n.b.hang("first")
	release := own(t, n.nodeB, room)
	n.b.say(room, "the first")
	asked()
	release()
	n.b.say(room, "the second")
	idle := conversation.Key("cli:idle")
	release = own(t, n.nodeB, idle)
	n.b.say(idle, "hello")
	n.b.reply(idle)
	release()
	if err := n.a.Drain(t.Context(), n.nodeB.ID(), true); err != nil {
		t.Fatal(err)
	}
	until(t, "the idle session is given up", func() bool { return !n.nodeB.Owns(string(idle)) })
	answer()
	if got := n.b.reply(room); !strings.Contains(got, "echo: the first") {
		t.Errorf("%q", got)
	}
	if got := n.reply(room); !strings.Contains(got, "echo: the second") {
		t.Errorf("%q", got)
	}
	n.b.say(idle, "once more")
	if got := n.reply(idle); !strings.Contains(got, "echo: once more") {
		t.Errorf("%q", got)
	}
	until(t, "nothing is left", func() bool { return !n.nodeB.Owns(string(room)) && n.b.router.AtWork() == 0 })
	if err := n.a.Drain(t.Context(), n.nodeB.ID(), false); err != nil {
		t.Fatal(err)
	}
	until(t, "it takes sessions on again", func() bool { return !n.nodeB.IsDraining() })
	defer own(t, n.nodeB, "cli:new")()
	n.b.say("cli:new", "hello")
	if got := n.b.reply("cli:new"); !strings.Contains(got, "echo: hello") {
		t.Errorf("%q", got)
	}
}

// A node drains while it answers. The person stops that run at the draining node, or at another one.
func TestRunOfADrainingNodeIsStopped(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(n nodes) *harness{
		"at the draining node": func(n nodes) *harness { return n.b },
		"at another node":      func(n nodes) *harness { return n.harness },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNodes(t, nil)
			asked, _ := n.b.hang("story")
			release := own(t, n.nodeB, room)
			n.b.say(room, "a long story")
			asked()
			release()
			n.drainB(t)
			stopped := at(n)
			stopped.said = 1 // source ids are unique in the channel
			stopped.say(room, "/stop")
			if got := n.b.reply(room); !strings.Contains(got, "topped") {
				t.Errorf("after a /stop: %q", got)
			}
		})
	}
}

// A /stop arrives at a node that drains, while another one answers.
func TestDrainingNodePassesAStopOn(t *testing.T) {
	t.Parallel()
	n := newNodes(t, nil)
	asked, _ := n.hang("story")
	release := own(t, n.a, room)
	n.say(room, "a long story")
	asked()
	release()
	n.drainB(t)
	n.b.said = 1
	n.b.say(room, "/stop")
	if got := n.reply(room); !strings.Contains(got, "topped") {
		t.Errorf("after a /stop at the draining node: %q", got)
	}
}

// drainB has the node b drain, and waits until both know of that.
func (n nodes) drainB(t *testing.T) {
	t.Helper()
	if err := n.a.Drain(t.Context(), n.nodeB.ID(), true); err != nil {
		t.Fatal(err)
	}
	until(t, "b hands its work over", func() bool {
		handsOver, _ := n.nodeB.HandsOver()
		return handsOver && slices.ContainsFunc(n.a.Live(), func(m cluster.Member) bool { return m.ID == n.nodeB.ID() && m.Draining })
	})
}

// All run slots of a node are taken: a session that waits for one moves to a node that has a free one, also if its
// channel places it on the busy node.
func TestSessionMovesToANodeWithAFreeSlot(t *testing.T) {
	t.Parallel()
	n := newNodes(t, func(d *Deps) {
		d.Config.MaxConcurrentRuns = 1
		d.Spread = func(conversation.Key) bool { return true }
	})
	var placed []conversation.Key // on b
	for i := 0; len(placed) < 2; i++ {
		key := conversation.Key("cli:" + string(rune('a'+i)))
		if place, _ := n.a.Place(string(key)); place.ID == n.nodeB.ID() {
			placed = append(placed, key)
		}
	}
	asked, answer := n.b.hang("long")
	release := own(t, n.nodeB, placed[0])
	n.b.say(placed[0], "a long one")
	asked()
	release()
	n.b.say(placed[1], "a short one")
	if got := n.reply(placed[1]); !strings.Contains(got, "echo: a short one") {
		t.Errorf("%q", got)
	}
	answer()
	if got := n.b.reply(placed[0]); !strings.Contains(got, "echo: a long one") {
		t.Errorf("%q", got)
	}
}
