package console_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/activity"
	"parley/console"
	"parley/conversation"
	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
	"parley/plaintext"
	"parley/sessions"
)

// consoleHarness is the console with a real store, without a gateway.
type consoleHarness struct {
	t       *testing.T
	store   *conversation.Store
	lines   *console.Lines
	log     *slog.Logger
	looked  []conversation.Key // senders that were told of something due
	browser *gatewaytest.Browser
	n       int // messages so far
}

func newConsoleHarness(t *testing.T, change func(*console.Deps)) *consoleHarness {
	t.Helper()
	d := &consoleHarness{t: t, store: storetest.New(t), lines: console.NewLines(plaintext.NewRedactor("a-long-secret"))}
	d.log = slog.New(d.lines.Beside(slog.DiscardHandler))
	exclusive := func(ctx context.Context, _ conversation.Key, do func(context.Context) error) error { return do(ctx) }
	parts := console.Deps{
		Store: d.store, Feed: activity.NewFeed(), Lines: d.lines, Channels: []conversation.Account{{Channel: "telegram"}}, Log: d.log,
		Look:     func(_ string, key conversation.Key) { d.looked = append(d.looked, key) },
		Window:   func(context.Context, conversation.Key) (console.Window, error) { return console.Window{}, nil },
		Sessions: sessions.New(d.store, exclusive, exclusive, nil),
	}
	if change != nil {
		change(&parts)
	}
	d.browser = gatewaytest.ServePages(t, console.New(parts).Serve)
	return d
}

func (d *consoleHarness) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// submit sends a form like a browser, and returns the page that it leads to.
func (d *consoleHarness) submit(path string, form url.Values) (status int, body string) {
	d.t.Helper()
	request, err := http.NewRequest(http.MethodPost, d.browser.URL+path, strings.NewReader(form.Encode()))
	d.must(err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, body, _ = d.browser.Do(request)
	return status, body
}

// talk stores a question and its answer; change may alter the run.
func (d *consoleHarness) talk(key conversation.Key, who conversation.Sender, text, answer string, change func(*conversation.Run)) conversation.Conversation {
	d.t.Helper()
	d.n++
	ctx := d.t.Context()
	in := conversation.Inbound{Key: key, SourceID: fmt.Sprint(d.n), Address: "{}", Sender: who, Text: text, At: time.Now()}
	_, err := d.store.Accept(ctx, nil, in)
	d.must(err)
	turn, err := d.store.Begin(ctx, key, 1000)
	d.must(err)
	run := conversation.Run{
		Key: key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Model: "fake", Rounds: 1, Prompt: 1200, Completion: 34, StartedAt: time.Now().Add(-time.Second),
		Messages: []conversation.Message{{Role: conversation.RoleUser, Content: text, Tokens: 5}, {Role: conversation.RoleAssistant, Content: answer, Tokens: 5}},
		Replies:  []conversation.Delivery{{Key: key, Channel: key.Channel(), Address: "{}", Text: answer}},
	}
	if change != nil {
		change(&run)
	}
	committed, err := d.store.Commit(ctx, run)
	d.must(err)
	return committed.Conversation
}

// due returns the deliveries of a session that are due.
func (d *consoleHarness) due(key conversation.Key) []conversation.Delivery {
	d.t.Helper()
	list, err := d.store.Deliveries(d.t.Context(), conversation.DeliveryQuery{Key: key, Ready: true, Limit: 10, Accounts: []conversation.Account{{Channel: key.Channel()}}})
	d.must(err)
	return list
}

func (d *consoleHarness) shows(page string, texts ...string) {
	d.t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			d.t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}
}
