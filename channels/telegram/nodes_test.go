package telegram_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/pairing"
	"parley/conversation/storetest"
	"parley/internal/clock"
	"parley/internal/postgrestest"
)

// botNode is one of several nodes that serve a bot.
type botNode struct {
	*telegram.Channel
	*gateway
	store *conversation.Store
	stop  func() error
}

// newBotNode returns a node with the database at url, whose polls the Telegram server knows by name.
func newBotNode(t *testing.T, srv *telegramtest.Server, url, name string, changes ...func(*telegram.Config)) *botNode {
	t.Helper()
	store, err := conversation.Open(t.Context(), conversation.Config{Path: url})
	must(t, err)
	t.Cleanup(func() { store.Close() }) // its database may be cut off
	n := &botNode{gateway: &gateway{t: t, srv: srv, store: store}, store: store}
	n.changed = sync.NewCond(&n.mu)
	cfg := n.config()
	cfg.APIURL = srv.URLFor(name)
	for _, change := range changes {
		change(&cfg)
	}
	n.Channel, err = telegram.New(telegram.Deps{
		Config: cfg, Cursor: store.Cursor, Pairings: pairing.New(store), Messages: stored{messages{n.gateway}, store}, Previews: store, Node: store.Node(), Health: n.fares,
		Log: slog.New(slog.NewTextHandler(&n.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	must(t, err)
	return n
}

// stored also asks the store which runs are under way.
type stored struct {
	messages
	store *conversation.Store
}

func (s stored) IsUnderWay(ctx context.Context, place conversation.Key, run int64) (bool, error) {
	return s.store.IsUnderWay(ctx, place, run)
}

func (n *botNode) start() {
	n.t.Helper()
	n.stop = n.run(n.Channel)
	n.waitLog("Telegram bot identified")
}

// polled returns the programs that have polled, in order, without repetitions.
func polled(polls []telegramtest.Poll) (programs []string) {
	for _, poll := range polls {
		programs = append(programs, poll.Program)
	}
	return slices.Compact(programs)
}

// waitPolled waits until polled returns these programs.
func waitPolled(t *testing.T, srv *telegramtest.Server, programs ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must(t, srv.WaitPolls(ctx, "polls of "+strings.Join(programs, ", "), func(polls []telegramtest.Poll) bool { return len(polled(polls)) >= len(programs) }))
	if got := polled(srv.Polls()); !slices.Equal(got, programs) {
		t.Fatalf("polled: %q, want %q", got, programs)
	}
}

// One of two nodes polls. When it is cut off from the database, it stops, and the other one continues after the last
// stored update. The first one polls again when the other one ends. Each message is stored once, and the offset never
// goes back.
func TestOneNodePollsForTheBot(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: it waits until a node is taken for dead")
	}
	srv, url := telegramtest.New(t), postgrestest.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	a, b := newBotNode(t, srv, proxy.URL(), "a"), newBotNode(t, srv, url, "b")
	say := func(text string) { srv.Say(telegramtest.Private(ada), ada, text) }
	a.start()
	waitPolled(t, srv, "a")
	b.start()
	say("one")
	a.wait(1)

	proxy.Interrupt()
	waitPolled(t, srv, "a", "b")
	say("two")
	b.wait(1)
	proxy.Resume()
	say("three")
	b.wait(2)
	must(t, b.stop())
	waitPolled(t, srv, "a", "b", "a")
	say("four")

	if got, want := append(texts(a.wait(2)), texts(b.wait(2))...), []string{"one", "four", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("accepted %q, want %q", got, want)
	}
	offsetsGrow(t, srv)
}

func offsetsGrow(t *testing.T, srv *telegramtest.Server) {
	t.Helper()
	highest := int64(0)
	for i, poll := range srv.Polls() {
		if poll.Offset < highest {
			t.Errorf("poll %d, of %s, goes back from %d to %d", i, poll.Program, highest, poll.Offset)
		}
		highest = max(highest, poll.Offset)
	}
}

// When Telegram says that another program polls, and another node has the role, this node does not poll again until it
// has the role.
func TestNodeChecksItsRoleWhenAnotherProgramPolls(t *testing.T) {
	t.Parallel()
	srv, url := telegramtest.New(t), postgrestest.Database(t)
	a, b := newBotNode(t, srv, url, "a"), newBotNode(t, srv, url, "b")
	a.start()
	waitPolled(t, srv, "a")
	must(t, srv.WaitPolling(deadline(t)))
	// move makes the other node take the role, although this one does not give it up.
	move := func() (giveBack func()) {
		const name = "telegram:7000001:poll"
		postgrestest.Exec(t, url, `UPDATE roles SET node_id = NULL WHERE name = '`+name+`'`)
		role, err := b.store.Node().Take(t.Context(), name)
		must(t, err)
		if role == nil {
			t.Fatal("the other node does not get the role")
		}
		return func() { role.Release(t.Context()) }
	}
	giveBack := move()
	pollOnce(t, srv)
	a.waitLog("no longer fetches the bot's updates")
	if n := len(srv.Polls()); n != 1 {
		t.Errorf("%d polls after the role went to another node", n-1)
	}
	giveBack()
	srv.Say(telegramtest.Private(ada), ada, "one")
	a.wait(1)

	must(t, srv.WaitPolling(deadline(t)))
	giveBack = move()
	srv.Say(telegramtest.Private(ada), ada, "two") // ends a poll that began under the role
	a.waitLogged("no longer fetches the bot's updates", 2)
	if got := texts(a.wait(1)); got[0] != "one" {
		t.Errorf("accepted under the role of another node: %q", got)
	}
	giveBack()
	a.wait(2)
}

// With a webhook, every node takes updates, and one of them sets and watches it. When that one ends, the webhook stays,
// and the other node watches it.
func TestEveryNodeTakesUpdatesOfTheWebhook(t *testing.T) {
	t.Parallel()
	srv, url := telegramtest.New(t), postgrestest.Database(t)
	var nodes [2]*botNode
	var requests atomic.Int64
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nodes[requests.Add(1)%2].ServeHTTP(w, r)
	}))
	t.Cleanup(balancer.Close)
	webhookChannel := func(c *telegram.Config) { c.WebhookURL = balancer.URL }
	nodes[0], nodes[1] = newBotNode(t, srv, url, "a", webhookChannel), newBotNode(t, srv, url, "b", webhookChannel)
	nodes[0].start()
	must(t, srv.WaitWebhook(deadline(t)))
	nodes[1].start()
	var said []string
	waiting := deadline(t)
	for first, second := 0, 0; first < 2 || second < 2; { // a node that does not run yet leaves its share to the other one
		said = append(said, fmt.Sprintf("message %03d", len(said)))
		srv.Say(telegramtest.Private(ada), ada, said[len(said)-1])
		for first+second < len(said) {
			must(t, clock.Sleep(waiting, 5*time.Millisecond))
			first, second = len(nodes[0].wait(0)), len(nodes[1].wait(0))
		}
	}
	got := append(texts(nodes[0].wait(0)), texts(nodes[1].wait(0))...)
	slices.Sort(got)
	if !slices.Equal(got, said) {
		t.Errorf("accepted %q, want %q", got, said)
	}
	if n := srv.Calls("setWebhook"); n != 1 {
		t.Errorf("the webhook was set %d times", n)
	}
	must(t, nodes[0].stop())
	srv.Say(telegramtest.Private(ada), ada, "last") // one of two attempts reaches the other node
	nodes[1].until(func() bool { return nodes[1].accepted[len(nodes[1].accepted)-1].Text == "last" })
	must(t, srv.WaitCalls(deadline(t), "setWebhook", 2))
}

// pollOnce polls as another program, which ends the poll of the bot.
func pollOnce(t *testing.T, srv *telegramtest.Server) {
	t.Helper()
	answer, err := http.Get(srv.URL + "/bot" + srv.Token + "/getUpdates?timeout=0")
	must(t, err)
	answer.Body.Close()
}

// waitPreview waits until a run's preview is stored, and returns its message.
func (n *botNode) waitPreview(run int64) (id string) {
	n.t.Helper()
	for ctx := deadline(n.t); id == ""; time.Sleep(5 * time.Millisecond) {
		var err error
		id, err = n.store.Preview(ctx, run)
		must(n.t, err)
	}
	return id
}

// reply commits a text as the answer to a message, and sends it.
func (n *botNode) reply(to conversation.Inbound, text string) {
	n.t.Helper()
	run := storetest.Answered(to.Key, storetest.Begin(n.t, n.store, to.Key, 1000), text)
	done, err := n.store.Commit(deadline(n.t), run)
	must(n.t, err)
	_, err = n.Send(deadline(n.t), done.Replies[0], partOf(text))
	must(n.t, err)
}

// The node that works a chat shows the answer as a draft, and a press of the draft's button arrives at the node that
// polls. After the end of the answer, the button does nothing.
func TestDraftIsStoppedThroughAnotherNode(t *testing.T) {
	t.Parallel()
	srv, url := telegramtest.New(t), postgrestest.Database(t)
	withDrafts := func(c *telegram.Config) { c.Drafts = true }
	a, b := newBotNode(t, srv, url, "a", withDrafts), newBotNode(t, srv, url, "b", withDrafts)
	a.start()
	waitPolled(t, srv, "a")
	b.start()
	chat := telegramtest.Private(ada)
	srv.Say(chat, ada, "tell me a story")
	asked := a.wait(1)[0]
	b.Preview(asked.Key, asked.ID, asked.Address, "Once upon a time")
	for ctx := deadline(t); srv.Draft(chat.ID).ID == 0; {
		must(t, clock.Sleep(ctx, 5*time.Millisecond))
	}
	draft := srv.Draft(chat.ID)
	srv.StopDraft(chat, draft.ID)
	if got := texts(a.wait(2)); got[1] != "/stop" {
		t.Errorf("accepted %q", got)
	}
	b.reply(asked, "The end.")
	srv.StopDraft(chat, draft.ID)
	srv.Say(chat, ada, "another one")
	if got := texts(a.wait(3)); got[2] != "another one" {
		t.Errorf("accepted %q", got)
	}
}

// The reply of a node replaces the preview of another node, which still edits the preview afterwards.
func TestReplyReplacesThePreviewOfAnotherNode(t *testing.T) {
	t.Parallel()
	srv, url := telegramtest.New(t), postgrestest.Database(t)
	a, b := newBotNode(t, srv, url, "a"), newBotNode(t, srv, url, "b")
	a.start()
	waitPolled(t, srv, "a")
	b.start()
	srv.Say(telegramtest.Private(ada), ada, "tell me a story")
	asked := a.wait(1)[0]
	a.Preview(asked.Key, asked.ID, asked.Address, "Once upon a time")
	a.waitPreview(asked.ID)
	b.reply(asked, "The end.")
	a.Preview(asked.Key, asked.ID, asked.Address, "Once upon a time there was")
	must(t, srv.WaitCalls(deadline(t), "editMessageText", 1))
	if sent := srv.SentTo(42); len(sent) != 1 || sent[0].Text != "The end." {
		t.Errorf("%+v", sent)
	}
}

// A stranger gets one code, even if another node polls when they write again.
func TestStrangerGetsOneCodeFromAllNodes(t *testing.T) {
	t.Parallel()
	srv, url := telegramtest.New(t), postgrestest.Database(t)
	strict := func(c *telegram.Config) { c.Allow = nil }
	a, b := newBotNode(t, srv, url, "a", strict), newBotNode(t, srv, url, "b", strict)
	a.start()
	waitPolled(t, srv, "a")
	b.start()
	srv.Say(telegramtest.Private(bob), bob, "hello")
	_, err := srv.WaitSent(deadline(t), 1)
	must(t, err)
	must(t, a.stop())
	waitPolled(t, srv, "a", "b")
	srv.Say(telegramtest.Private(bob), bob, "hello?")
	told, err := srv.WaitSent(deadline(t), 2)
	must(t, err)
	waiting, err := pairing.New(b.store).List(t.Context())
	must(t, err)
	if len(waiting) != 1 || !strings.Contains(told[0].Text, waiting[0].Code) || !strings.Contains(told[1].Text, waiting[0].Code) {
		t.Errorf("told %q, waiting: %+v", []string{told[0].Text, told[1].Text}, waiting)
	}
}

// The messages of an album, only one of which mentions the bot, are all accepted when the node that polls changes in
// between.
func TestAlbumContinuesAtAnotherNode(t *testing.T) {
	t.Parallel()
	srv, url := telegramtest.New(t), postgrestest.Database(t)
	a, b := newBotNode(t, srv, url, "a"), newBotNode(t, srv, url, "b")
	a.start()
	waitPolled(t, srv, "a")
	b.start()
	srv.Say(group, ada, "@parley_bot look", telegramtest.WithPhoto([]byte("one")), telegramtest.InAlbum("7"))
	a.wait(1)
	must(t, a.stop())
	srv.Say(group, ada, "", telegramtest.WithPhoto([]byte("two")), telegramtest.InAlbum("7"))
	if second := b.wait(1)[0]; len(second.Attachments) != 1 {
		t.Errorf("%+v", second)
	}
}
