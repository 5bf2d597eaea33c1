package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/channels/delivery"
	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/waittest"
)

// outboxHarness has a store with replies that are due, and a Telegram server to send them to.
type outboxHarness struct {
	t      *testing.T
	path   string
	store  *conversation.Store
	server *telegramtest.Server
	source int
}

func newOutboxHarness(t *testing.T) *outboxHarness {
	t.Helper()
	p := &outboxHarness{t: t, path: filepath.Join(t.TempDir(), "test.db"), server: telegramtest.New(t)}
	p.open()
	return p
}

func (p *outboxHarness) open() {
	p.t.Helper()
	p.store = storetest.Open(p.t, p.path)
}

func chatKey(fakeChat int64) conversation.Key {
	return conversation.Key(fmt.Sprintf("telegram:chat:%d", fakeChat))
}

// reply commits a run that answers with a text, and returns its deliveries.
func (p *outboxHarness) reply(fakeChat int64, text string) []conversation.Delivery {
	p.t.Helper()
	p.server.AddChat(telegramtest.Private(telegramtest.User{ID: fakeChat, FirstName: "Ada"}))
	return p.commit(fakeChat, text)
}

// commit is like reply, for a chat that need not exist on the server.
func (p *outboxHarness) commit(fakeChat int64, text string) []conversation.Delivery {
	p.t.Helper()
	p.source++
	in := conversation.Inbound{Key: chatKey(fakeChat), SourceID: fmt.Sprint(p.source), Address: fmt.Sprintf(`{"chat":%d}`, fakeChat), Text: "?", At: time.Now()}
	if _, err := p.store.Accept(p.t.Context(), nil, in); err != nil {
		p.t.Fatal(err)
	}
	turn, err := p.store.Begin(p.t.Context(), in.Key, 100)
	if err != nil {
		p.t.Fatal(err)
	}
	done, err := p.store.Commit(p.t.Context(), conversation.Run{
		Key: in.Key, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: turn.Waiting[:1],
		Replies: []conversation.Delivery{{Key: in.Key, Address: in.Address, Text: text}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return done.Replies
}

// accept stores messages as a channel does.
func (p *outboxHarness) accept(ctx context.Context, cursors []conversation.Cursor, batch ...conversation.Inbound) error {
	_, err := p.store.Accept(ctx, cursors, batch...)
	return err
}

// start runs a sender; stop ends it and waits.
func (p *outboxHarness) start() (sender *delivery.Sender, stop func()) {
	p.t.Helper()
	return p.startWith(p.store)
}

// startWith is start with another outbox.
func (p *outboxHarness) startWith(outbox delivery.Outbox) (sender *delivery.Sender, stop func()) {
	p.t.Helper()
	channel, err := telegram.New(telegram.Deps{Config: telegram.Config{Token: telegramtest.Token, APIURL: p.server.URL, Access: "open", FileOver: 10}, Cursor: p.store.Cursor, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		p.t.Fatal(err)
	}
	sender = delivery.New(channel, outbox, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		sender.Run(ctx, conversation.Scope{Channel: "telegram"}, nil)
	}()
	stop = func() { cancel(); waittest.Receive(p.t, done, "the end of the sender") }
	p.t.Cleanup(stop)
	return sender, stop
}

func (p *outboxHarness) waitSent(n int) []telegramtest.Message {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), waittest.Patience)
	defer cancel()
	sent, err := p.server.WaitSent(ctx, n)
	if err != nil {
		p.t.Fatal(err)
	}
	return sent
}

func (p *outboxHarness) waitNothingDue() {
	p.t.Helper()
	for deadline := time.Now().Add(waittest.Patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		due, err := p.store.Due(p.t.Context(), conversation.Scope{Channel: "telegram"})
		if err != nil {
			p.t.Fatal(err)
		}
		if len(due) == 0 {
			return
		}
	}
	p.t.Fatal("replies stay due")
}

func paragraphs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d %s\n\n", i, strings.Repeat("long paragraph ", 200))
	}
	return b.String()
}

func TestPartsThatWereTakenAreNotSentAgain(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.reply(1, paragraphs(4))
	p.server.Refuse(1, telegramtest.Verdict{}, 1) // the first part passes
	p.server.Refuse(1, telegramtest.BadGateway(), 1000)
	_, stop := p.start()
	p.waitSent(1)
	p.waitMarked(1)
	stop()

	again := telegramtest.New(t) // the platform works again
	first := p.server.Sent()
	p.server = again
	again.AddChat(telegramtest.Private(telegramtest.User{ID: 1, FirstName: "Ada"}))
	p.start()
	p.waitNothingDue()
	rest := again.Sent()
	if len(first) != 1 || len(rest) == 0 || strings.HasPrefix(rest[0].Text, "0 ") {
		t.Fatalf("%d parts before and %d after the restart", len(first), len(rest))
	}
	var whole strings.Builder
	for _, m := range slices.Concat(first, rest) {
		whole.WriteString(m.Text)
	}
	if got := strings.Count(whole.String(), "long paragraph"); got != 800 {
		t.Fatalf("%d of 800 phrases arrived", got)
	}
}

// waitMarked waits until a number of parts of the reply to chat 1 are marked.
func (p *outboxHarness) waitMarked(parts int) {
	p.t.Helper()
	for deadline := time.Now().Add(waittest.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		due, err := p.store.Deliveries(p.t.Context(), conversation.DeliveryQuery{Key: chatKey(1), Ready: true, Limit: 1})
		if err != nil {
			p.t.Fatal(err)
		}
		if len(due) == 1 && len(due[0].Sent) == parts {
			return
		}
	}
	p.t.Fatalf("fewer than %d parts were marked", parts)
}

// The second part of a long reply, its file, is sent even if the gateway ended after the first part.
func TestFileOfALongReplyIsSentAfterARestart(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.reply(1, paragraphs(400))
	p.reply(1, "next")
	p.server.Refuse(1, telegramtest.Verdict{}, 1) // the first part passes
	p.server.Refuse(1, telegramtest.BadGateway(), 1000)
	_, stop := p.start()
	p.waitSent(1)
	p.waitMarked(1)
	stop()

	p.server = telegramtest.New(t) // the platform works again
	p.server.AddChat(telegramtest.Private(telegramtest.User{ID: 1, FirstName: "Ada"}))
	p.start()
	p.waitNothingDue()
	sent := p.server.Sent()
	if len(sent) != 2 || sent[0].Document == nil || sent[0].Document.Data != paragraphs(400) || sent[1].Text != "next" {
		t.Fatalf("%d messages after the restart", len(sent))
	}
}

func TestPermanentlyRefusedReplyDelaysNoOther(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.reply(1, "refused")
	p.reply(1, "taken")
	p.server.Refuse(1, telegramtest.Verdict{Code: 403, Description: "Forbidden: bot was blocked by the user"}, 1)
	p.start()
	if sent := p.waitSent(1); sent[0].Text != "taken" {
		t.Fatalf("sent %q", sent[0].Text)
	}
	p.waitNothingDue()
}

// The preview of an answer is held back while an earlier reply is being sent. Its newest text is shown
// right after that, even if the model adds nothing.
func TestPreviewFollowsTheReplyThatHeldItBack(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	outbox := slowOutbox{p.store, make(chan struct{})}
	sender, _ := p.startWith(outbox)
	note := sync.OnceFunc(func() { close(outbox.mark) })
	t.Cleanup(note) // else the sender would never end when the test has failed
	sender.Enqueue(p.reply(1, "earlier")...)
	shown := make(chan string, 2)
	for _, text := range []string{"An", "An answer"} {
		if !sender.AfterSending(chatKey(1), func() { shown <- text }) {
			t.Fatal("the reply counts as done before it is marked as sent")
		}
	}
	p.waitSent(1)
	if len(shown) > 0 {
		t.Error("shown before the reply was marked as sent")
	}
	note()
	if text := waittest.Receive(t, shown, "the preview"); text != "An answer" {
		t.Errorf("shown: %q", text)
	}
	if len(shown) > 0 || sender.AfterSending(chatKey(1), func() {}) {
		t.Error("held back although nothing is being sent")
	}
}

// slowOutbox marks a reply as sent once mark is closed.
type slowOutbox struct {
	delivery.Outbox
	mark chan struct{}
}

func (o slowOutbox) Mark(ctx context.Context, d conversation.Delivery, mark conversation.Mark, reason string) error {
	<-o.mark
	return o.Outbox.Mark(ctx, d, mark, reason)
}

func TestRateLimitedChatDelaysNoOther(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.reply(1, "flooded")
	p.server.Refuse(1, telegramtest.TooMany(3600), 1000)
	sender, _ := p.start()
	for fakeChat := int64(2); fakeChat < 22; fakeChat++ {
		sender.Enqueue(p.reply(fakeChat, "quick")...)
	}
	for _, m := range p.waitSent(20) {
		if m.Chat == 1 {
			t.Fatal("a reply was sent to the rate-limited chat too early")
		}
	}
}

func TestRepliesOfAChatKeepTheirOrderThroughFailures(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	for i := range 10 {
		p.reply(1, fmt.Sprint(i))
	}
	p.server.Refuse(1, telegramtest.BadGateway(), 1)
	p.server.Refuse(1, telegramtest.Verdict{}, 3)
	p.server.Refuse(1, telegramtest.TooMany(1), 1)
	p.start()
	for i, m := range p.waitSent(10) {
		if m.Text != fmt.Sprint(i) {
			t.Fatalf("reply %d reads %q", i, m.Text)
		}
	}
}

// A session of one person may span two platforms. A sender neither sends nor gives up the
// replies for the other platform, and does not wait for them.
func TestSenderLeavesRepliesOfOtherChannelsAlone(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.server.AddChat(telegramtest.Private(telegramtest.User{ID: 1, FirstName: "Ada"}))
	const ada = conversation.Key("user:ada")
	in := conversation.Inbound{Key: ada, Origin: chatKey(1), SourceID: "1", Address: `{"chat":1}`, Text: "?", At: time.Now()}
	stored, err := p.store.Accept(t.Context(), nil, in)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.store.Commit(t.Context(), conversation.Run{
		Key: ada, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: stored,
		Replies: []conversation.Delivery{{Channel: "discord", Address: `{"channel":"7"}`, Text: "there"}, {Channel: "telegram", Address: in.Address, Text: "here"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, stop := p.start()
	p.waitNothingDue()
	stop()
	if sent := p.server.Sent(); len(sent) != 1 || sent[0].Text != "here" {
		t.Errorf("sent: %+v", sent)
	}
	if due, err := p.store.Deliveries(t.Context(), conversation.DeliveryQuery{Key: ada, Ready: true, Limit: 10}); err != nil || len(due) != 1 || due[0].Text != "there" || due[0].Attempts != 0 {
		t.Errorf("left: %+v, %v", due, err)
	}
}

func TestFlushEndsWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.reply(1, "last words")
	channel, err := telegram.New(telegram.Deps{Config: telegram.Config{Token: telegramtest.Token, APIURL: p.server.URL, Access: "open"}, Cursor: p.store.Cursor, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	flush := make(chan struct{})
	close(flush)
	sender := delivery.New(channel, p.store, slog.New(slog.DiscardHandler))
	if err := sender.Run(t.Context(), conversation.Scope{Channel: "telegram"}, flush); err != nil {
		t.Fatal(err)
	}
	if sent := p.server.Sent(); len(sent) != 1 || sent[0].Text != "last words" {
		t.Fatalf("sent %+v", sent)
	}
}

// A reply that the sender found in the store at its start is sent once, even if its run reports it, too.
func TestReplyEnqueuedAgainIsSentOnce(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	early := p.reply(1, "early")
	sender, _ := p.start()
	p.waitSent(1)
	p.waitNothingDue()
	sender.Enqueue(early...)
	sender.Enqueue(p.reply(1, "next")...)
	p.waitSent(2)
	p.waitNothingDue()
	if sent := p.server.Sent(); len(sent) != 2 || sent[1].Text != "next" {
		t.Fatalf("the chat got %+v", sent)
	}
}

// busyStore is a store in which more replies appear when a queue has just sent its last one and is about
// to end.
type busyStore struct {
	*conversation.Store
	sent func()
}

func (s *busyStore) Mark(ctx context.Context, d conversation.Delivery, mark conversation.Mark, reason string) error {
	err := s.Store.Mark(ctx, d, mark, reason)
	if mark == conversation.MarkSent {
		s.sent()
	}
	return err
}

// Queue and sender do not wait for each other, and no reply is left unsent.
func TestRepliesThatArriveWhileTheirQueueEndsAreSent(t *testing.T) {
	t.Parallel()
	const rounds, together = 60, 3
	p := newOutboxHarness(t)
	busy, fakePlatform, flush := &busyStore{Store: p.store}, &fakePlatform{}, make(chan struct{})
	sender := delivery.New(fakePlatform, busy, slog.New(slog.DiscardHandler))
	want, sent := []string{"first"}, 0
	p.commit(1, "first")
	busy.sent = func() {
		if sent++; sent < len(want) || len(want) > rounds*together {
			return
		}
		for range together {
			text := fmt.Sprint(len(want))
			want = append(want, text)
			sender.Enqueue(p.commit(1, text)...)
		}
		if len(want) > rounds*together {
			close(flush)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		sender.Run(t.Context(), conversation.Scope{Channel: "telegram"}, flush)
	}()
	select {
	case <-done:
	case <-time.After(waittest.Patience):
		t.Fatal("the queue and its sender wait for each other")
	}
	if _, texts := fakePlatform.seen(); texts != strings.Join(want, ", ") {
		t.Errorf("of %d replies the chat got %s", len(want), texts)
	}
}
