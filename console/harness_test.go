package console_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/activity"
	"parley/console"
	"parley/conversation"
	"parley/httpserver"
	"parley/sessions"
)

// desk is the console at work over a real store and server.
type desk struct {
	t      *testing.T
	store  *conversation.Store
	lines  *console.Lines
	log    *slog.Logger
	looked []conversation.Key // senders that were told of something due
	url    string
	client *http.Client
	n      int // messages so far
}

func newDesk(t *testing.T, change func(*console.Parts)) *desk {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, lines: console.NewLines([]string{"a-long-secret"}), client: &http.Client{Jar: jar, Timeout: time.Minute}}
	d.log = slog.New(d.lines.Beside(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	if d.store, err = conversation.Open(ctx, filepath.Join(t.TempDir(), "test.db")); err != nil {
		t.Fatal(err)
	}
	listen := "127.0.0.1:0"
	server, err := httpserver.New(httpserver.Parts{Config: httpserver.Config{Listen: &listen, Auth: httpserver.AuthNone, MaxConnections: 100}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	parts := console.Parts{
		Store: d.store, Feed: activity.NewFeed(), Lines: d.lines, Channels: []conversation.Account{{Channel: "telegram"}}, Log: d.log,
		Look:     func(_ string, key conversation.Key) { d.looked = append(d.looked, key) },
		Window:   func(context.Context, conversation.Key) (console.Window, error) { return console.Window{}, nil },
		Sessions: sessions.New(d.store, func(ctx context.Context, _ conversation.Key, do func(context.Context) error) error { return do(ctx) }, nil),
	}
	if change != nil {
		change(&parts)
	}
	console.New(parts).Serve(server)
	d.url = strings.TrimSuffix(server.URL(), "/")
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx, ctx) })
	t.Cleanup(func() {
		d.client.CloseIdleConnections()
		cancel()
		running.Wait()
		d.store.Close()
	})
	return d
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// get gives a page and its status.
func (d *desk) get(path string) (int, string) {
	d.t.Helper()
	answer, err := d.client.Get(d.url + path)
	d.must(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	d.must(err)
	return answer.StatusCode, string(body)
}

// page is a page that there must be.
func (d *desk) page(path string) string {
	d.t.Helper()
	status, body := d.get(path)
	if status != http.StatusOK {
		d.t.Fatalf("%s answers %d: %s", path, status, body)
	}
	return body
}

// submit sends a form as the page of a browser does, and gives what it leads to.
func (d *desk) submit(path string, form url.Values) (int, string) {
	d.t.Helper()
	answer, err := d.client.PostForm(d.url+path, form)
	d.must(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	d.must(err)
	return answer.StatusCode, string(body)
}

// talk has a message asked and answered; change may alter the run.
func (d *desk) talk(key conversation.Key, who conversation.Sender, text, answer string, change func(*conversation.Run)) conversation.Conversation {
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

// due gives the deliveries of a session that are to be sent.
func (d *desk) due(key conversation.Key) []conversation.Delivery {
	d.t.Helper()
	list, err := d.store.Deliveries(d.t.Context(), conversation.DeliveryQuery{Key: key, State: conversation.DueNow, Limit: 10, Accounts: []conversation.Account{{Channel: key.Channel()}}})
	d.must(err)
	return list
}

func (d *desk) shows(page string, texts ...string) {
	d.t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			d.t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}
}
