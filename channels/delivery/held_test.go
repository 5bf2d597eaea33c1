package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/channels"
	"parley/channels/delivery"
	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/storetest"
	"parley/internal/waittest"
)

// fakeChat is a platform that takes a message unless verdict returns an error for it.
type fakeChat struct {
	verdict func(text string) error

	mu    sync.Mutex
	taken []string
	tries map[string]int // by text
}

func (*fakeChat) Name() string { return "telegram" }

func (*fakeChat) Run(context.Context, channels.AcceptFunc) error { return nil }

func (*fakeChat) Split(d conversation.Delivery) (parts []channels.Part) {
	for i, text := range strings.Split(d.Text, "|") {
		parts = append(parts, channels.Part{Index: i, Text: text, Plain: text})
	}
	return parts
}

func (c *fakeChat) Send(_ context.Context, _ conversation.Delivery, p channels.Part) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries[p.Text]++
	if err := c.verdict(p.Text); err != nil {
		return "", err
	}
	c.taken = append(c.taken, p.Text)
	return fmt.Sprint(len(c.taken)), nil
}

func (c *fakeChat) seen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.taken, ", ")
}

func (c *fakeChat) tried(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tries[text]
}

// stuck returns the error of a message that its platform fails on, although it has taken other messages
// since then.
func stuck(since time.Time) error {
	return &channels.SendError{Err: &channels.StuckError{HealthySince: since, Err: errors.New("500 Internal Server Error")}}
}

// senderHarness runs a sender on a store.
type senderHarness struct {
	*outboxHarness
	*fakeChat
	log    waittest.Buffer
	sender *delivery.Sender
	flush  chan struct{}
	done   chan struct{}
	cancel context.CancelFunc
}

// deliverTo starts a sender on the store at path. Its platform takes a message unless verdict returns an
// error for it.
func deliverTo(t *testing.T, path string, verdict func(text string) error) *senderHarness {
	t.Helper()
	store := storetest.Open(t, path)
	d := &senderHarness{outboxHarness: &outboxHarness{t: t, store: store}, fakeChat: &fakeChat{verdict: verdict, tries: map[string]int{}}}
	d.source = int(time.Now().Unix()) * 1000 // no process takes the ids of another's messages
	d.start()
	t.Cleanup(d.kill)
	return d
}

func (d *senderHarness) start() {
	ctx, cancel := context.WithCancel(context.Background())
	d.flush, d.done, d.cancel = make(chan struct{}), make(chan struct{}), cancel
	d.sender = delivery.New(d.fakeChat, d.store, slog.New(slog.NewTextHandler(&d.log, nil)))
	go func() {
		defer close(d.done)
		d.sender.Run(ctx, conversation.Scope{Channel: "telegram"}, d.flush)
	}()
}

// kill ends the sender without a flush, as a kill of its process does.
func (d *senderHarness) kill() {
	d.cancel()
	<-d.done
}

// say commits a reply to the session of chat 1, and passes it to the sender.
func (d *senderHarness) say(text string) { d.sender.Enqueue(d.commit(1, text)...) }

// flushed flushes and ends the sender, and reports whether that took no longer than the last attempts
// to send a reply.
func (d *senderHarness) flushed() bool {
	close(d.flush)
	select {
	case <-d.done:
		return true
	case <-time.After(waittest.Patience):
		return false
	}
}

func (d *senderHarness) queue() bots.Queue {
	d.t.Helper()
	list, err := bots.New(d.store).Queues(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	if len(list) == 0 {
		return bots.Queue{}
	}
	return list[0]
}

func isBad(text string) bool { return strings.HasPrefix(text, "bad") }

// A later reply, such as the one to a command, is sent while an earlier one is stuck.
func TestSenderSetsAsideAReplyThatThePlatformFailsOn(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := deliverTo(t, filepath.Join(t.TempDir(), "test.db"), func(text string) error {
			if isBad(text) {
				return stuck(began)
			}
			return nil
		})
		d.say("bad")
		d.say("good")
		time.Sleep(2 * time.Minute)
		if got := d.seen(); got != "good" {
			t.Fatalf("the chat got %q", got)
		}
		if q := d.queue(); q.Due != 1 || q.Held != 1 || q.OldestHeld.IsZero() {
			t.Errorf("the queue reads %+v", q)
		}
		if !strings.Contains(d.log.String(), "set_aside=true") {
			t.Errorf("the log does not report it:\n%s", &d.log)
		}
		d.say("at once")
		synctest.Wait()
		if got := d.seen(); got != "good, at once" {
			t.Errorf("the chat got %q: a later reply waits for the one that is set aside", got)
		}
		tries := d.tried("bad")
		time.Sleep(5 * time.Hour)
		if n := d.tried("bad") - tries; n < 15 || n > 60 {
			t.Errorf("the reply was tried %d times in 5 hours", n)
		}
		time.Sleep(2 * time.Hour)
		failed, err := d.store.Deliveries(t.Context(), conversation.DeliveryQuery{Failed: true, Limit: 5})
		if err != nil || len(failed) != 1 || d.queue().Held != 0 {
			t.Errorf("the reply is never given up: %+v, %v", failed, err)
		}
	})
}

// While a platform answers 5xx to every message, although it can be reached, no reply is set aside: they
// are sent in order afterwards.
func TestSenderKeepsOrderThroughAnOutageOfMessagesAlone(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	for name, outage := range map[string]time.Duration{"of a minute": time.Minute, "of an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				d := deliverTo(t, filepath.Join(t.TempDir(), "test.db"), func(string) error {
					if time.Since(began) < outage {
						return stuck(began)
					}
					return nil
				})
				var want []string
				for i := range 20 {
					want = append(want, fmt.Sprint(i))
					d.say(want[i])
					time.Sleep(outage / 20)
				}
				time.Sleep(20 * time.Second)
				d.say("after it")
				time.Sleep(time.Hour)
				if got := d.seen(); got != strings.Join(append(want, "after it"), ", ") {
					t.Errorf("the chat got %q", got)
				}
			})
		})
	}
}

// While a platform takes nothing for ten minutes, the log has an entry a minute for all chats together, whatever the cause is.
func TestOutageOfAPlatformLogsOnceAMinute(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	const chats, minutes = 100, 10
	for name, fail := range map[string]func(since time.Time) error{
		"nothing answers":       func(time.Time) error { return errors.New("no route to host") },
		"only messages fail":    stuck,
		"all are asked to wait": func(time.Time) error { return &channels.SendError{RetryAfter: 7 * time.Second, Err: errors.New("429")} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				d := deliverTo(t, filepath.Join(t.TempDir(), "test.db"), func(string) error {
					if time.Since(began) < minutes*time.Minute {
						return fail(began)
					}
					return nil
				})
				for chat := range chats {
					d.sender.Enqueue(d.commit(int64(chat+1), "hello")...)
				}
				time.Sleep(time.Hour)
				if q := d.queue(); q.Due != 0 {
					t.Errorf("%d replies are not sent", q.Due)
				}
				text := d.log.String()
				if n := strings.Count(text, "level=WARN"); n < minutes/2 || n > minutes+1 {
					t.Errorf("%d minutes have %d warnings:\n%s", minutes, n, text)
				}
				if n := strings.Count(text, "replies are taken again"); n != 1 || !strings.Contains(text, fmt.Sprintf("affected=%d", chats)) {
					t.Errorf("the end is logged %d times, or the extent is not:\n%s", n, text)
				}
			})
		})
	}
}

func TestReplyThatWasSetAsideIsSentOnceThePlatformTakesIt(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := deliverTo(t, filepath.Join(t.TempDir(), "test.db"), func(text string) error {
			if isBad(text) && time.Since(began) < time.Hour {
				return stuck(began)
			}
			return nil
		})
		d.say("first part|bad|last part")
		d.say("good")
		time.Sleep(2 * time.Hour)
		if got := d.seen(); got != "first part, good, bad, last part" {
			t.Errorf("the chat got %q", got)
		}
		if q := d.queue(); q.Due != 0 {
			t.Errorf("the queue reads %+v", q)
		}
	})
}

// A reply that was set aside is tried first after a restart, and does not delay the others.
func TestReplyThatWasSetAsideIsTriedFirstAfterARestart(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		began, path := time.Now(), filepath.Join(t.TempDir(), "test.db")
		bad := func(text string) error {
			if isBad(text) {
				return stuck(began)
			}
			return nil
		}
		d := deliverTo(t, path, bad)
		for i := range 40 { // more than are read at once
			d.say(fmt.Sprint("bad ", i))
		}
		d.say("good")
		time.Sleep(time.Hour)
		d.kill()
		if q := d.queue(); q.Held != 40 || d.seen() != "good" {
			t.Fatalf("the chat got %q, and the queue reads %+v", d.seen(), q)
		}
		held := d.queue().OldestHeld

		again := deliverTo(t, path, bad)
		again.say("better")
		time.Sleep(10 * time.Minute)
		if got := again.seen(); got != "better" || again.tried("bad 39") == 0 {
			t.Errorf("the chat got %q", got)
		}
		if q := again.queue(); q.Held != 40 || !q.OldestHeld.Equal(held) {
			t.Errorf("the queue reads %+v, oldest before %s", q, held)
		}
		again.kill()

		mended := deliverTo(t, path, func(string) error { return nil })
		mended.say("best")
		time.Sleep(time.Minute)
		if got := mended.seen(); !strings.HasPrefix(got, "bad 0, bad 1, ") || !strings.HasSuffix(got, "bad 39, best") {
			t.Errorf("the chat got %q", got)
		}
	})
}

// A flush waits for attempts under way, but not for the next attempt at a reply that the platform does
// not take.
func TestFlushDoesNotWaitForLaterAttempts(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	for name, failure := range map[string]error{
		"stuck":         stuck(time.Time{}),
		"unreachable":   &channels.SendError{Err: errors.New("no route to host")},
		"asked to wait": &channels.SendError{RetryAfter: time.Hour, Err: errors.New("too many requests")},
	} {
		for when, waits := range map[string]time.Duration{"at once": time.Second, "in back-off": 20 * time.Second, "after hours": 2 * time.Hour} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "test.db")
					bad := func(text string) error {
						if isBad(text) {
							return failure
						}
						return nil
					}
					d := deliverTo(t, path, bad)
					d.say("bad")
					d.say("good")
					d.sender.Enqueue(d.commit(2, "elsewhere")...)
					time.Sleep(waits)
					if !d.flushed() {
						t.Fatal("the flush waits for the next attempt")
					}
					if !strings.Contains(d.seen(), "elsewhere") {
						t.Error("another chat did not get its reply")
					}

					again := deliverTo(t, path, func(string) error { return nil })
					time.Sleep(time.Second)
					if got := d.seen() + ", " + again.seen(); strings.Count(got, "bad") != 1 || strings.Count(got, "good") != 1 {
						t.Errorf("before and after the restart the chat got %q", got)
					}
				})
			})
		}
	}
}

// A rate limit of seconds is no reason to leave the reply to the next start.
func TestFlushWaitsForAShortRateLimit(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		d := deliverTo(t, filepath.Join(t.TempDir(), "test.db"), func(string) error {
			if tries++; tries == 1 {
				return &channels.SendError{RetryAfter: 2 * time.Second, Err: errors.New("too many requests")}
			}
			return nil
		})
		d.say("last words")
		time.Sleep(time.Second)
		if !d.flushed() || d.seen() != "last words" {
			t.Errorf("the chat got %q", d.seen())
		}
	})
}

// A flush leaves the replies of a session to the process that works it.
func TestFlushDoesNotWaitForASessionOfAnotherProcess(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "test.db")
		d := deliverTo(t, path, func(string) error { return nil })
		d.sender.Enqueue(d.commit(2, "elsewhere")...)
		time.Sleep(time.Second)
		locked := &lockedStore{Store: d.store}
		d.kill()
		d.flush, d.done = make(chan struct{}), make(chan struct{})
		d.sender = delivery.New(d.fakeChat, locked, slog.New(slog.NewTextHandler(&d.log, nil)))
		ctx, cancel := context.WithCancel(context.Background())
		d.cancel = cancel
		go func() {
			defer close(d.done)
			d.sender.Run(ctx, conversation.Scope{Channel: "telegram"}, d.flush)
		}()
		d.say("not ours")
		time.Sleep(time.Minute)
		if !d.flushed() || d.seen() != "elsewhere" {
			t.Errorf("the chats got %q", d.seen())
		}
	})
}

// lockedStore is a store whose sessions another process works.
type lockedStore struct{ *conversation.Store }

func (lockedStore) Lock(key conversation.Key) (func(), error) {
	return nil, &conversation.LockedError{Key: key}
}

// The adapter knows by its polls that Telegram works for all other messages.
func TestTelegramCommandPassesAReplyThatTelegramFailsOn(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	serving := make(chan struct{})
	serves := sync.OnceFunc(func() { close(serving) })
	channel, err := telegram.New(telegram.Deps{
		Config: telegram.Config{Token: telegramtest.Token, APIURL: p.server.URL, Access: "open"}, Cursor: p.store.Cursor, Log: slog.New(slog.DiscardHandler),
		Health: func(state, _ string) {
			if state == bots.Serving {
				serves()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.server.OnSend(func(m telegramtest.Message) telegramtest.Verdict {
		if m.Text == "bad" {
			return telegramtest.BadGateway()
		}
		return telegramtest.Verdict{}
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	flush := make(chan struct{})
	sender := delivery.New(channel, p.store, slog.New(slog.DiscardHandler), delivery.WithPatience(time.Millisecond))
	var running sync.WaitGroup
	running.Go(func() { _ = channel.Run(ctx, p.accept) })
	defer running.Wait()
	defer cancel()
	waittest.Receive(t, serving, "the channel serves")
	done := make(chan struct{})
	go func() {
		defer close(done)
		sender.Run(t.Context(), conversation.Scope{Channel: "telegram"}, flush)
	}()
	sender.Enqueue(p.reply(1, "bad")...)
	sender.Enqueue(p.reply(1, "the answer to a command")...)
	if sent := p.waitSent(1); sent[0].Text != "the answer to a command" {
		t.Fatalf("sent %q", sent[0].Text)
	}
	close(flush)
	waittest.Receive(t, done, "the end of the sender")
	if list, err := bots.New(p.store).Queues(t.Context()); err != nil || len(list) != 1 || list[0].Held != 1 {
		t.Errorf("the queues read %+v, %v", list, err)
	}
}
