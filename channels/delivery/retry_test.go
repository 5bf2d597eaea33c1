package delivery_test

import (
	"context"
	"errors"
	"fmt"
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
)

// platform is a chat platform that takes nothing while send gives an error. In
// a bubble of synctest it needs no network, so that days pass at once.
type platform struct {
	send func() error

	mu    sync.Mutex
	texts []string
	tries int
}

func (*platform) Name() string { return "telegram" }

func (*platform) Run(context.Context, channels.AcceptFunc) error { return nil }

func (*platform) Split(d conversation.Delivery) []channels.Part {
	return []channels.Part{{Text: d.Text, Plain: d.Text}}
}

func (p *platform) Send(_ context.Context, d conversation.Delivery, _ channels.Part) (string, error) {
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

func (p *platform) seen() (tries int, texts string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries, strings.Join(p.texts, ", ")
}

// trouble sends "bad" and then "good" through a platform for so long, and gives
// the log.
func trouble(t *testing.T, p *platform, long time.Duration) (log string) {
	t.Helper()
	store := storetest.New(t)
	post := &post{t: t, store: store}
	post.commit(1, "bad")
	post.commit(1, "good")
	var lines lockedBuffer
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

func TestAReplyThatOnlyItsPlatformFailsOnIsGivenUpTheSameDay(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := &platform{send: func() error {
			return &channels.SendError{Err: &channels.StuckError{HealthySince: began, Err: errors.New("500 Internal Server Error")}}
		}}
		log := trouble(t, p, 24*time.Hour)
		if _, texts := p.seen(); texts != "good" {
			t.Errorf("the chat got %q: it is held up by a reply that never passes", texts)
		}
		if !strings.Contains(log, "reply not delivered") || !strings.Contains(log, "500 Internal") {
			t.Errorf("the log does not tell of the loss:\n%s", log)
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
				p := &platform{send: func() error {
					if time.Since(began) < outage {
						return err
					}
					return nil
				}}
				trouble(t, p, outage+2*time.Hour)
				if _, texts := p.seen(); texts != "bad, good" {
					t.Errorf("the chat got %q after the outage", texts)
				}
			})
		})
	}
}

// The end of an outage is no reason to give a reply up either: the platform
// has to work for hours and still not take it. Later ones go on meanwhile.
func TestTheTimeOfAnOutageDoesNotCountAgainstAReply(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(48 * time.Hour)
		p := &platform{send: func() error {
			switch since := time.Since(back); {
			case since < 0:
				return &channels.SendError{Err: errors.New("no route to host")}
			case since < 5*time.Hour:
				return &channels.SendError{Err: &channels.StuckError{HealthySince: back, Err: errors.New("500")}}
			}
			return nil
		}}
		trouble(t, p, 60*time.Hour)
		if _, texts := p.seen(); texts != "good, bad" {
			t.Errorf("the chat got %q", texts)
		}
	})
}

func TestALongTroubleIsLoggedEverMoreRarely(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	synctest.Test(t, func(t *testing.T) {
		p := &platform{send: func() error { return errors.New("no route to host") }}
		log := trouble(t, p, 3*24*time.Hour)
		tries, _ := p.seen()
		for n := 1; n <= tries; n *= 2 {
			if !strings.Contains(log, fmt.Sprintf("delivery=1 attempts=%d since=", n)) {
				t.Errorf("the log does not tell of try %d", n)
			}
		}
		if lines := strings.Count(log, "reply not taken"); lines < 10 || lines > 14 {
			t.Errorf("%d lines about %d tries", lines, tries)
		}
	})
}

// lockedBuffer is a log that many goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
