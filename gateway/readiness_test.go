package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels"
	"parley/channels/delivery"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/dbhealth"
	"parley/conversation/storetest"
	"parley/embedding"
	"parley/internal/postgrestest"
	"parley/plaintext"
)

// nameOnly is a channel without anything else.
type nameOnly struct {
	channels.Source
	name string
}

func (n nameOnly) Name() string { return n.name }

// A gateway that can't recover by itself is not ready, so that an orchestrator restarts it. One whose
// platform is away is ready.
func TestReadyFailsOnLastingTrouble(t *testing.T) {
	t.Parallel()
	store := storetest.New(t)
	g := &Gateway{store: store, channels: map[string]*served{"telegram": {Source: nameOnly{name: "telegram"}}}}
	ready := g.readiness()
	for _, c := range []struct {
		channel, state string
		want           bool
	}{
		{"telegram", bots.Connecting, true},
		{"telegram", bots.Serving, true},
		{"telegram", bots.Interrupted, true},
		{"discord", bots.Ended, true},    // is not configured any more
		{"discord", bots.Rejected, true}, // likewise
		{"telegram", bots.Rejected, false},
		{"telegram", bots.Serving, true},
		{"telegram", bots.Ended, false},
		{"telegram", bots.Serving, true},
	} {
		if err := bots.New(store).SetHealth(t.Context(), conversation.Account{Channel: c.channel}, c.state, "why"); err != nil {
			t.Fatal(err)
		}
		if got, is := ready(t.Context()); got != c.want {
			t.Errorf("%s %s: ready is %t: %+v", c.channel, c.state, got, is)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if got, is := g.readiness()(t.Context()); got || is.(parts).Store.Error == "" {
		t.Errorf("with a store that is gone, ready is %t: %+v", got, is)
	}
}

// When Telegram refuses the bot from one node and accepts it from another, only the first one is not ready.
func TestReadyFailsOnTroubleOfItsOwnNodeOnly(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	var nodes []*Gateway
	for _, state := range []string{bots.Rejected, bots.Serving} {
		store, err := conversation.Open(t.Context(), conversation.Config{Path: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		g := &Gateway{store: store, channels: map[string]*served{"telegram": {Source: nameOnly{name: "telegram"}}}}
		g.health(conversation.Account{Channel: "telegram"})(state, "why")
		nodes = append(nodes, g)
	}
	for i, want := range []bool{false, true} {
		if got, is := nodes[i].readiness()(t.Context()); got != want {
			t.Errorf("node %d: ready is %t: %+v", i, got, is)
		}
	}
}

// /readyz shows the progress of embeddings. A failing embeddings server does not make the gateway unready.
func TestReadyShowsEmbeddings(t *testing.T) {
	t.Parallel()
	g := &Gateway{store: storetest.New(t)}
	if ready, is := g.readiness()(t.Context()); !ready || is.(parts).Embeddings != nil {
		t.Errorf("without a model: %t, %+v", ready, is)
	}
	g.vectors = embedding.New(g.store, embedding.Config{Name: "nomic"})
	if ready, is := g.readiness()(t.Context()); !ready || is.(parts).Embeddings == nil || is.(parts).Embeddings.Model != "nomic" {
		t.Errorf("with a model: %t, %+v", ready, is)
	}
	since := time.Now()
	failing := seen{embeddings: &embedding.Status{Model: "nomic", Done: 3, Total: 5, Failure: "no answer", Since: since}}
	ready, is := g.judge(failing, nil)
	want := embeddingState{Model: "nomic", Done: 3, Total: 5, Error: "no answer", Since: &since}
	if diff := cmp.Diff(&want, is.Embeddings); !ready || diff != "" {
		t.Errorf("with a server that fails: %t\n%s", ready, diff)
	}
}

// A secret is hidden in the words of a platform, and nowhere else: one may be the name of a channel or of a field.
func TestReadyHidesSecretsOfOthersOnly(t *testing.T) {
	t.Parallel()
	g := &Gateway{store: storetest.New(t), secrets: plaintext.NewRedactor("telegram", "channel")}
	_, is := g.judge(seen{held: []conversation.Delivery{{Channel: "telegram", Reason: "no telegram today"}}}, errors.New("no channel"))
	if len(is.Held) != 1 || is.Held[0].Channel != "telegram" || is.Held[0].Error != "no (hidden) today" || is.Store.Error != "no (hidden)" {
		t.Errorf("shown is %+v", is)
	}
}

// A check that waits behind other work of the store is no sign of trouble as long as the store does that work.
func TestReadyHoldsWhileTheStoreIsBusy(t *testing.T) {
	t.Parallel()
	store := storetest.New(t)
	release := make(chan struct{})
	busy := make(chan struct{}, 1)
	p := &prober[int]{works: dbhealth.New(store).WorksSince, probe: func(context.Context) (int, error) {
		select {
		case busy <- struct{}{}:
			return 7, nil
		default:
			<-release
			return 8, nil
		}
	}}
	if n, err := p.ask().answer(t.Context()); n != 7 || err != nil {
		t.Fatalf("a store at rest: %d, %v", n, err)
	}
	waiting := p.ask()
	storetest.Accept(t, store, storetest.Say("cli:work", 1, "hello"))
	expired, expire := context.WithCancel(t.Context())
	expire()
	if n, err := waiting.answer(expired); n != 7 || err != nil {
		t.Errorf("a store that stores other messages: %d, %v", n, err)
	}
	p.works = func(time.Time) bool { return false }
	if _, err := waiting.answer(expired); err == nil {
		t.Error("a store that does nothing counts as working")
	}
	close(release)
	if n, err := waiting.answer(t.Context()); n != 8 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// platformSink is a platform that takes a reply unless verdict returns an error for its session.
type platformSink struct {
	nameOnly
	verdict func(conversation.Key) error
}

func (p platformSink) Split(d conversation.Delivery) []channels.Part {
	return []channels.Part{{Text: d.Text, Plain: d.Text}}
}

func (p platformSink) Send(_ context.Context, d conversation.Delivery, _ channels.Part) (string, error) {
	return "1", p.verdict(d.Key)
}

// Replies that a platform does not take for minutes are a problem for the operator, but no reason to send the channel's people
// to another node. A chat that alone has to wait is neither.
func TestStalledDeliveryIsReported(t *testing.T) {
	t.Parallel()
	storetest.NeedsVirtualTime(t)
	bad := errors.New("502 Bad Gateway")
	wait := &channels.SendError{RetryAfter: time.Hour, Err: errors.New("429 Too Many Requests")}
	for name, c := range map[string]struct {
		chats, failing int
		err            error
		want           string
	}{
		"all fail":                     {20, 20, bad, "telegram has taken no reply for 1m0s: 20 replies to 20 chats to be sent, the oldest for 2m0s"},
		"all are asked to wait":        {3, 3, wait, "telegram has taken no reply for 1m0s: 3 replies to 3 chats to be sent, the oldest for 2m0s"},
		"the only chat fails":          {1, 1, bad, "telegram has taken no reply for 1m0s: 1 reply to 1 chat to be sent, the oldest for 2m0s"},
		"the only chat has to wait":    {1, 1, wait, ""},
		"some fail, others are taken":  {5, 2, bad, ""},
		"platform takes every message": {5, 0, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				store := storetest.New(t)
				isBad := map[conversation.Key]bool{}
				sink := platformSink{nameOnly{name: "telegram"}, func(key conversation.Key) error {
					if isBad[key] && time.Since(began) < 10*time.Minute {
						return c.err
					}
					return nil
				}}
				var keys []conversation.Key
				for i := range c.chats {
					keys = append(keys, conversation.Key(fmt.Sprint("telegram:chat:", i+1)))
					isBad[keys[i]] = i < c.failing
				}
				sender := delivery.New(sink, store, slog.New(slog.DiscardHandler))
				g := &Gateway{store: store, channels: map[string]*served{"telegram": {Source: sink, sender: sender, scope: conversation.Scope{Channel: "telegram"}}}}
				flush, done := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(done)
					_ = sender.Run(t.Context(), g.channels["telegram"].scope, flush)
				}()
				defer func() { close(flush); <-done }()
				say := func(id int) {
					for _, key := range keys {
						if id == 1 || !isBad[key] {
							storetest.Turn(t, store, key, id)
							sender.EnqueueDue(key)
						}
					}
				}
				expect := func(want string) {
					t.Helper()
					in, err := g.readSeen(t.Context())
					ready, is := g.judge(in, err)
					report := healthReport{Ready: ready, parts: is}
					if got := strings.Join(is.Degraded, "; "); got != want || !ready || len(report.problems()) != len(is.Degraded) {
						t.Errorf("after %s, ready is %t, and the problems are %q (%v), want %q", time.Since(began), ready, got, report.problems(), want)
					}
				}
				say(1)
				time.Sleep(50 * time.Second)
				expect("")
				say(2)
				time.Sleep(70 * time.Second)
				if c.want == "" {
					say(3)
					synctest.Wait()
				}
				expect(c.want)
				time.Sleep(2 * time.Hour)
				expect("")
			})
		})
	}
}
