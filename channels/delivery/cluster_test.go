package delivery_test

import (
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/cluster/clustertest"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
)

// Two nodes send replies. Only the one that works a session sends there. When it is cut off from the database, the
// other one sends each reply that was left, once.
func TestRepliesAreSentByTheNodeThatWorksTheSession(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t) // a store on PostgreSQL has a node of its own
	url := clustertest.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	a := newPost(t)
	a.store.Join(clustertest.Join(t, url, "a"))
	b := &post{t: t, path: a.path, server: a.server, store: storetest.Open(t, a.path)}
	b.store.Join(clustertest.Join(t, proxy.URL(), "b"))
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
	if senderA.AfterSending(chatKey(1), func() {}) {
		t.Error("the node a has kept the reply")
	}

	proxy.Interrupt()
	senderB.Enqueue(a.reply(1, "for a")...)
	a.waitNothingDue()
	release()
	if sent := a.waitSent(2); len(sent) != 2 || sent[1].Text != "for a" {
		t.Errorf("%+v", sent)
	}
}

// A node drains while a chat's platform has asked it to wait for an hour: the other node sends the reply.
func TestDrainingNodeLeavesReplies(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t) // a store on PostgreSQL has a node of its own
	url := clustertest.Database(t)
	a := newPost(t)
	a.store.Join(clustertest.Join(t, url, "a"))
	b := &post{t: t, path: a.path, server: a.server, store: storetest.Open(t, a.path)}
	b.store.Join(clustertest.Join(t, url, "b"))
	a.server.Refuse(1, telegramtest.TooMany(3600), 1)
	senderA, _ := a.start()
	senderA.Enqueue(a.reply(1, "late")...)
	for deadline := time.Now().Add(90 * time.Second); !senderA.AfterSending(chatKey(1), func() {}) || !a.store.Node().Owns(string(chatKey(1))); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the reply is not being sent")
		}
	}
	b.start()
	if err := b.store.Node().Drain(t.Context(), a.store.Node().ID(), true); err != nil {
		t.Fatal(err)
	}
	if sent := a.waitSent(1); sent[0].Text != "late" {
		t.Errorf("%+v", sent)
	}
	a.waitNothingDue()
}
