package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// received subscribes to a topic.
func received(n *Node, topic string) <-chan Notice {
	ch := make(chan Notice, 1000)
	n.Subscribe(topic, func(notice Notice) { ch <- notice })
	return ch
}

// Nodes send each other notices, whether each of them polls or listens.
func TestNoticesReachNodesInBothModes(t *testing.T) {
	t.Parallel()
	url := database(t)
	nodes := map[Mode]*Node{}
	notices := map[Mode]<-chan Notice{}
	for _, mode := range []Mode{Notify, Poll} {
		c := config(t, url, string(mode))
		c.Bus = mode
		nodes[mode] = join(t, c)
		notices[mode] = received(nodes[mode], "session")
	}
	c := config(t, url, "sender")
	sender := join(t, c)
	own := received(sender, "session")

	var want []string
	for i := range 300 { // more than one NOTIFY takes
		body := fmt.Sprintf("web:%03d %s \"ü\"", i, strings.Repeat("x", 60))
		want = append(want, body)
		if err := sender.Publish("session", body); err != nil {
			t.Fatal(err)
		}
	}
	if err := sender.Send(nodes[Poll].ID(), "session", "only for one"); err != nil {
		t.Fatal(err)
	}
	for mode := range nodes {
		var got []string
		for range want {
			notice := waittest.Receive(t, notices[mode], "a notice arrives")
			if notice.From != sender.ID() {
				t.Errorf("from %d", notice.From)
			}
			got = append(got, notice.Body)
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %s: %d notices, or in another order", mode, len(got))
		}
	}
	if notice := waittest.Receive(t, notices[Poll], "the notice for one node arrives"); notice.Body != "only for one" {
		t.Errorf("%+v", notice)
	}
	if len(own) > 0 || len(notices[Notify]) > 0 {
		t.Error("a notice reached a node that it is not for")
	}
	if err := sender.Publish("session", strings.Repeat("x", 8000)); err == nil {
		t.Error("a notice that NOTIFY refuses is accepted")
	}
}

// A pooler such as PgBouncer in transaction mode passes no notices on. A node detects this when it
// starts.
func TestBusPollsWhereNotifyDoesNotWork(t *testing.T) {
	t.Parallel()
	url := database(t)
	proxy := postgrestest.NewProxy(t, url)
	proxy.DropNotices()
	polls, notified := join(t, config(t, proxy.URL(), "polls")), join(t, config(t, url, "notified"))
	if polls.Bus() != Poll || notified.Bus() != Notify {
		t.Fatal("the nodes use", polls.Bus(), notified.Bus())
	}
	eventually(t, "they know each other", func() bool { return len(polls.Live()) == 2 && len(notified.Live()) == 2 })
	there, back := received(polls, "ping"), received(notified, "pong")
	if err := notified.Publish("ping", "1"); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, there, "a notice reaches the node that polls")
	if err := polls.Publish("pong", "2"); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, back, "a notice of the node that polls arrives")

	c := config(t, proxy.URL(), "insists")
	c.Bus = Notify
	if n, err := Join(t.Context(), c); err == nil {
		n.Leave(t.Context())
		t.Error("a node insists on NOTIFY where it does not work, and joins")
	}
}

// Notices arrive again after the listening connection broke and was replaced.
func TestBusListensAgainAfterALostConnection(t *testing.T) {
	t.Parallel()
	url := database(t)
	proxy := postgrestest.NewProxy(t, url)
	listener, sender := join(t, config(t, proxy.URL(), "listener")), join(t, config(t, url, "sender"))
	notices := received(listener, "again")
	proxy.Interrupt()
	proxy.Resume()
	n := 0
	eventually(t, "a notice arrives", func() bool {
		n++
		sender.Publish("again", fmt.Sprint(n))
		return len(notices) > 0
	})
}
