package delivery_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/cluster/clustertest"
	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

// Only the node that works a session sends its replies. When that node is cut off from the database, another one sends
// the remaining replies, each once.
func TestRepliesAreSentByTheNodeThatWorksTheSession(t *testing.T) {
	t.Parallel()
	url := clustertest.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	a, b := newTwoNodes(t, url, proxy.URL())
	senderA, _ := a.start()
	senderB, _ := b.start()

	release, err := b.store.Lock(chatKey(1)) // as its loop does
	if err != nil {
		t.Fatal(err)
	}
	replies := a.reply(1, "for b")
	senderA.Enqueue(replies...)
	a.source++
	if sent := a.waitSent(1); sent[0].Text != "for b" {
		t.Fatalf("%+v", sent)
	}
	a.waitNothingDue()
	a.await("the node a to leave the reply to the other one", func() bool { return !senderA.AfterSending(chatKey(1), func() {}) })

	proxy.Interrupt()
	senderB.Enqueue(a.reply(1, "for a")...)
	a.waitNothingDue()
	release()
	if sent := a.waitSent(2); len(sent) != 2 || sent[1].Text != "for a" {
		t.Errorf("%+v", sent)
	}
}

// The next node of a session sends a reply that an earlier node has left before its own replies.
func TestRepliesOfAnEarlierNodeComeFirst(t *testing.T) {
	t.Parallel()
	url := clustertest.Database(t)
	a, b := newTwoNodes(t, url, url)
	senderB, _ := b.start()
	release, err := a.store.Lock(chatKey(1)) // so that b does not look for the reply before it has one of its own
	if err != nil {
		t.Fatal(err)
	}
	a.reply(1, "earlier")
	later := a.reply(1, "later")
	release()
	senderB.Enqueue(later...)
	if sent := a.waitSent(2); sent[0].Text != "earlier" || sent[1].Text != "later" {
		t.Errorf("%+v", sent)
	}
	a.waitNothingDue()
}

// newTwoNodes returns the harnesses of two nodes that reach their cluster's database at these URLs.
func newTwoNodes(t *testing.T, urlOfA, urlOfB string) (a, b *outboxHarness) {
	t.Helper()
	storetest.NeedsSQLite(t) // a store on PostgreSQL has a node of its own
	a = newOutboxHarness(t)
	a.store.Join(clustertest.Join(t, urlOfA, "a"))
	b = &outboxHarness{t: t, path: a.path, server: a.server, store: storetest.Open(t, a.path)}
	b.store.Join(clustertest.Join(t, urlOfB, "b"))
	return a, b
}

func (p *outboxHarness) await(what string, happened func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(waittest.Patience); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatal("waited in vain for " + what)
		}
	}
}

// A draining node does not wait out a rate limit of an hour: the other node sends the reply.
func TestDrainingNodeLeavesReplies(t *testing.T) {
	t.Parallel()
	url := clustertest.Database(t)
	a, b := newTwoNodes(t, url, url)
	a.server.Refuse(1, telegramtest.TooMany(3600), 1)
	senderA, _ := a.start()
	senderA.Enqueue(a.reply(1, "late")...)
	a.await("the first try of the reply", func() bool { // the other node's would be asked to wait
		return a.server.Calls("sendMessage") > 0 && senderA.AfterSending(chatKey(1), func() {}) && a.store.Node().Owns(string(chatKey(1)))
	})
	b.start()
	if err := b.store.Node().Drain(t.Context(), a.store.Node().ID(), true); err != nil {
		t.Fatal(err)
	}
	if sent := a.waitSent(1); sent[0].Text != "late" {
		t.Errorf("%+v", sent)
	}
	a.waitNothingDue()
}

// A node is declared dead just after it has taken a session, since its process was paused, and joins anew. It must not send replies in
// the session as if it had it: it could not mark them as sent, and the next node would send them again.
func TestNodeThatJoinsAnewTakesTheSessionAgain(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	store, err := conversation.Open(t.Context(), conversation.Config{Path: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	a := &outboxHarness{t: t, server: telegramtest.New(t), store: store}
	sender, _ := a.startWith(&pausedOutbox{Store: store, pause: func() {
		former := store.Node().ID()
		postgrestest.Exec(t, url, fmt.Sprintf(`UPDATE nodes SET dead_at = 1 WHERE id = %[1]d; DELETE FROM lanes WHERE node_id = %[1]d`, former))
		a.await("the node to join anew", func() bool { return store.Node().ID() != former && store.Node().Valid() })
	}})
	sender.Enqueue(a.reply(1, "once")...)
	a.waitNothingDue()
	if sent := a.waitSent(1); len(sent) != 1 || sent[0].Text != "once" {
		t.Errorf("%+v", sent)
	}
}

// pausedOutbox calls pause after the first lock of a session.
type pausedOutbox struct {
	*conversation.Store
	pause func()
	once  sync.Once
}

func (p *pausedOutbox) Lock(key conversation.Key) (release func(), err error) {
	release, err = p.Store.Lock(key)
	p.once.Do(p.pause)
	return release, err
}
