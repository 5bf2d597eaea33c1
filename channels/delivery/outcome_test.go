package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/activity"
	"parley/channels"
	"parley/channels/delivery"
	"parley/conversation"
)

// panickingSink is a platform whose adapter panics over one text.
type panickingSink struct {
	*fakePlatform
	splits bool // Split panics, else Send
}

func (c panickingSink) Split(d conversation.Delivery) []channels.Part {
	if c.splits && d.Text == "bad" {
		panic("a bug")
	}
	return c.fakePlatform.Split(d)
}

func (c panickingSink) Send(ctx context.Context, d conversation.Delivery, p channels.Part) (string, error) {
	if d.Text == "bad" {
		panic("a bug")
	}
	return c.fakePlatform.Send(ctx, d, p)
}

// deliver sends the replies that are due, and returns the outcomes that were reported.
func (p *outboxHarness) deliver(sink channels.Sink) []activity.OutcomeKind {
	p.t.Helper()
	var mu sync.Mutex
	var kinds []activity.OutcomeKind
	flush := make(chan struct{})
	close(flush)
	sender := delivery.New(sink, p.store, slog.New(slog.DiscardHandler), delivery.WithOutcomes(func(o activity.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if o.Channel != "telegram" || o.After < 0 || o.After > time.Hour {
			p.t.Errorf("outcome %+v", o)
		}
		kinds = append(kinds, o.Kind)
	}))
	if err := sender.Run(p.t.Context(), conversation.Scope{Channel: "telegram"}, flush); err != nil {
		p.t.Fatal(err)
	}
	return kinds
}

// The chat is told of the failure, and the next reply is sent.
func TestPanicOverAReplyFailsThatReplyAlone(t *testing.T) {
	t.Parallel()
	for _, splits := range []bool{true, false} {
		p := newOutboxHarness(t)
		p.commit(1, "bad")
		p.commit(1, "good")
		to := &fakePlatform{}
		kinds := p.deliver(panickingSink{to, splits})
		if _, texts := to.seen(); !strings.HasSuffix(texts, "is not sent. The details are in the gateway's log., good") {
			t.Errorf("in Split %t: the chat got %q", splits, texts)
		}
		if diff := cmp.Diff([]activity.OutcomeKind{activity.Failed, activity.Sent}, kinds); diff != "" {
			t.Error(diff)
		}
	}
}

func TestOutcomeOfEveryAttemptIsReported(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.commit(1, "bad")
	tries := 0
	to := &fakePlatform{send: func() error {
		if tries++; tries < 3 {
			return &channels.SendError{RetryAfter: time.Millisecond, Err: errors.New("not now")}
		}
		return nil
	}}
	if diff := cmp.Diff([]activity.OutcomeKind{activity.Retried, activity.Retried, activity.Sent}, p.deliver(to)); diff != "" {
		t.Error(diff)
	}
}
