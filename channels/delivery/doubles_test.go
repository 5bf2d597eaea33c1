package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels"
	"parley/channels/delivery"
	"parley/conversation"
	"parley/internal/waittest"
)

// gate is a platform that takes a message for each one that open lets through.
type gate struct {
	let   chan struct{}
	taken chan string
}

func newGate() *gate { return &gate{let: make(chan struct{}, 100), taken: make(chan string, 100)} }

func (g *gate) Name() string { return "telegram" }

func (g *gate) Run(ctx context.Context, _ channels.AcceptFunc) error { <-ctx.Done(); return nil }

func (g *gate) Split(d conversation.Delivery) []channels.Part {
	return []channels.Part{{Text: d.Text, Plain: d.Text}}
}

func (g *gate) Send(ctx context.Context, _ conversation.Delivery, p channels.Part) (string, error) {
	<-g.let
	g.taken <- p.Text
	return p.Text, nil
}

// open lets n messages through.
func (g *gate) open(n int) {
	for range n {
		g.let <- struct{}{}
	}
}

// deliver runs a sender on the store; stop flushes and ends it.
func (g *gate) deliver(t *testing.T, outbox delivery.Outbox) (sender *delivery.Sender, stop func()) {
	t.Helper()
	sender = delivery.New(g, outbox, slog.New(slog.DiscardHandler))
	flush, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		sender.Run(context.WithoutCancel(t.Context()), conversation.Scope{Channel: "telegram"}, flush)
	}()
	return sender, func() { close(flush); waittest.Receive(t, done, "the end of the sender"); close(g.taken) }
}

func (g *gate) all() []string {
	var got []string
	for text := range g.taken {
		got = append(got, text)
	}
	return got
}

// While the replies that the process before has left are sent, a new reply is found in the store and
// also reported by its run: people get it once.
func TestReplyQueuedBehindOlderOnesIsSentOnce(t *testing.T) {
	t.Parallel()
	p, g := newOutboxHarness(t), newGate()
	var want []string
	for i := range 16 { // as many as are read at once
		want = append(want, fmt.Sprint("left ", i))
		p.reply(7, want[i])
	}
	sender, stop := g.deliver(t, p.store)
	g.open(1)
	got := []string{waittest.Receive(t, g.taken, "the first reply")} // the queue has read the sixteen
	sender.Enqueue(p.reply(7, "new")...)
	g.open(40)
	stop()
	if diff := cmp.Diff(append(want, "new"), append(got, g.all()...)); diff != "" {
		t.Error(diff)
	}
}

// slowRead is a store in which a run reports its reply right after the queue has read it.
type slowRead struct {
	*conversation.Store
	read, goOn chan struct{}
	once       sync.Once
}

func (s *slowRead) Deliveries(ctx context.Context, q conversation.DeliveryQuery) ([]conversation.Delivery, error) {
	due, err := s.Store.Deliveries(ctx, q)
	s.once.Do(func() { close(s.read); <-s.goOn })
	return due, err
}

func TestReplyReportedAfterItWasReadIsSentOnce(t *testing.T) {
	t.Parallel()
	p, g := newOutboxHarness(t), newGate()
	p.reply(7, "left")
	fresh := p.reply(7, "new")
	box := &slowRead{Store: p.store, read: make(chan struct{}), goOn: make(chan struct{})}
	sender, stop := g.deliver(t, box)
	g.open(40)
	waittest.Receive(t, box.read, "the queue reads its replies")
	sender.Enqueue(fresh...)
	close(box.goOn)
	stop()
	if diff := cmp.Diff([]string{"left", "new"}, g.all()); diff != "" {
		t.Error(diff)
	}
}
