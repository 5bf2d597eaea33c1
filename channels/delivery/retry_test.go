package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/channels"
	"parley/channels/delivery"
	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/waittest"
)

// fakePlatform is a chat platform that takes no message while send returns an error. It needs no
// network, so that days pass at once in a synctest bubble.
type fakePlatform struct {
	send func() error

	mu    sync.Mutex
	texts []string
	tries int
}

func (*fakePlatform) Name() string { return "telegram" }

func (*fakePlatform) Run(context.Context, channels.AcceptFunc) error { return nil }

func (*fakePlatform) Split(d conversation.Delivery) []channels.Part {
	return []channels.Part{{Text: d.Text, Plain: d.Text}}
}

func (p *fakePlatform) Send(_ context.Context, d conversation.Delivery, _ channels.Part) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(d.Text, "bad") {
		p.tries++
		if err := p.send(); err != nil {
			return "", err
		}
	}
	p.texts = append(p.texts, d.Text)
	return "1", nil
}

func (p *fakePlatform) seen() (tries int, texts string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries, strings.Join(p.texts, ", ")
}

// sendThroughFailures sends "bad" and then "good" to a platform, waits for a duration, and returns
// the log.
func sendThroughFailures(t *testing.T, p *fakePlatform, long time.Duration) (log string) {
	t.Helper()
	store := storetest.New(t)
	outboxHarness := &outboxHarness{t: t, store: store}
	outboxHarness.commit(1, "bad")
	outboxHarness.commit(1, "good")
	var lines waittest.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		delivery.New(p, store, slog.New(slog.NewTextHandler(&lines, nil))).Run(ctx, conversation.Scope{Channel: "telegram"}, nil)
	}()
	time.Sleep(long)
	cancel()
	<-done
	return lines.String()
}

func TestReplyThatAWorkingPlatformFailsOnIsGivenUpTheSameDay(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &fakePlatform{send: func() error {
			return &channels.SendError{Err: &channels.StuckError{HealthySince: began, Err: errors.New("500 Internal Server Error")}}
		}}
		log := sendThroughFailures(t, p, 24*time.Hour)
		if _, texts := p.seen(); !strings.HasPrefix(texts, "good, ⚠️ A reply could not be sent") {
			t.Errorf("the chat got %q: a reply that the platform never takes delays the next one, and is not told of", texts)
		}
		if !strings.Contains(log, "reply not delivered") || !strings.Contains(log, "500 Internal") {
			t.Errorf("the log does not report the loss:\n%s", log)
		}
	})
}

func TestNoReplyIsGivenUpForAnOutage(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	const outage = 20 * 24 * time.Hour
	for name, err := range map[string]error{
		"unreachable":      &channels.SendError{Err: errors.New("no route to host")},
		"asked to wait":    &channels.SendError{RetryAfter: time.Hour, Err: errors.New("too many requests")},
		"an unnamed error": errors.New("whatever"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				p := &fakePlatform{send: func() error {
					if time.Since(began) < outage {
						return err
					}
					return nil
				}}
				sendThroughFailures(t, p, outage+2*time.Hour)
				if _, texts := p.seen(); texts != "bad, good" {
					t.Errorf("the chat got %q after the outage", texts)
				}
			})
		})
	}
}

// A reply is not given up right after an outage either: first the platform has to work for hours
// without taking it. Later replies are sent meanwhile.
func TestOutageDoesNotCountAgainstAReply(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(48 * time.Hour)
		p := &fakePlatform{send: func() error {
			switch since := time.Since(back); {
			case since < 0:
				return &channels.SendError{Err: errors.New("no route to host")}
			case since < 5*time.Hour:
				return &channels.SendError{Err: &channels.StuckError{HealthySince: back, Err: errors.New("500")}}
			}
			return nil
		}}
		sendThroughFailures(t, p, 60*time.Hour)
		if _, texts := p.seen(); texts != "good, bad" {
			t.Errorf("the chat got %q", texts)
		}
	})
}

func TestRepeatedFailuresAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		p := &fakePlatform{send: func() error { return errors.New("no route to host") }}
		log := sendThroughFailures(t, p, time.Hour)
		if !strings.Contains(log, "delivery=1 attempts=1 since=") {
			t.Errorf("the first attempt is not logged:\n%s", log)
		}
		tries, _ := p.seen()
		if lines := strings.Count(log, "reply not taken"); lines < 50 || lines > 61 {
			t.Errorf("%d lines about %d tries", lines, tries)
		}
	})
}
