package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/textproto"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/activity"
	"parley/agentloop"
	"parley/channels"
	"parley/channels/web"
	"parley/conversation"
	"parley/httpserver"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/sessions"
	"parley/tools"
)

// patience bounds how long a test waits for what must happen.
const patience = 60 * time.Second

// house is the web chat at work: a real store, router and server, and a fake
// model.
type house struct {
	t      *testing.T
	path   string // of the database
	model  *llmtest.Server
	store  *conversation.Store
	feed   *activity.Feed
	url    string // without a slash at its end
	client *http.Client
	said   string // what the channel said of itself at its start
	end    func()
}

func newHouse(t *testing.T) *house {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, path: filepath.Join(t.TempDir(), "test.db"), model: llmtest.New(t), client: &http.Client{Jar: jar, Timeout: patience}}
	h.start()
	t.Cleanup(func() { h.end() })
	return h
}

// start is what a gateway does at its start.
func (h *house) start() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	var err error
	if h.store, err = conversation.Open(ctx, h.path); err != nil {
		h.t.Fatal(err)
	}
	h.feed = activity.NewFeed()
	registry, err := tools.NewRegistry(tools.Tool{
		Name: "show", Parameters: json.RawMessage(`{"type":"object"}`),
		Call: func(_ context.Context, arguments json.RawMessage) (string, error) {
			return "shown: " + string(arguments), nil
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	health := make(chan string, 1)
	var channel *web.Channel
	deps := agentloop.Deps{
		Config: agentloop.DefaultConfig(), Store: h.store, Counter: llm.NewCounter("fake"), Tools: registry, Watcher: watcher{h.feed},
		Model:   llm.NewClient(llm.Config{BaseURL: h.model.URL(), APIKey: "key", Model: "fake", RetryBase: time.Millisecond, MaxTries: 2}, log),
		Files:   fetcher{func() channels.Fetcher { return channel }},
		Deliver: func([]conversation.Delivery) {}, Rest: func() {}, Budget: 100_000, Vision: true, Log: log,
	}
	deps.Config.Titles = false // they are calls of the model that most tests do not count
	router := agentloop.NewRouter(deps)
	channel = web.New(web.Parts{Store: h.store, Feed: h.feed, Sessions: sessions.New(h.store, router.Exclusively, h.feed.Changed), Log: log, Health: func(state, _ string) { health <- state }, Commands: []channels.Command{{Name: "help", Description: "Show the commands"}}})
	listen := "127.0.0.1:0"
	server, err := httpserver.New(httpserver.Parts{Config: httpserver.Config{Listen: &listen, Auth: httpserver.AuthNone, MaxConnections: 100}, Log: log})
	if err != nil {
		h.t.Fatal(err)
	}
	channel.Serve(server)
	server.Handle("GET /console/{$}", httpserver.Person, http.NotFoundHandler()) // a part that pages lead to
	h.url = strings.TrimSuffix(server.URL(), "/")
	accept := func(ctx context.Context, cursors []conversation.Cursor, batch ...conversation.Inbound) error {
		stored, err := h.store.Accept(ctx, cursors, batch...)
		if err == nil {
			router.Accepted(stored...)
			h.feed.Changed(batch[0].Key)
		}
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { _ = router.Run(ctx, ctx, conversation.Scope{Channel: "web"}) })
	running.Go(func() { _ = channel.Run(ctx, accept) })
	h.said = <-health // pages come when messages are taken
	running.Go(func() { _ = server.Run(ctx, ctx) })
	h.end = func() {
		h.client.CloseIdleConnections()
		cancel()
		running.Wait()
		h.store.Close()
	}
}

// watcher tells the feed what a run does, as the gateway does.
type watcher struct{ feed *activity.Feed }

func (w watcher) Working(ctx context.Context, key conversation.Key, took []conversation.Inbound, _ conversation.Destination) {
	w.feed.Working(ctx, key, took[0].ID, took[len(took)-1].ID)
}
func (w watcher) Preview(key conversation.Key, _ conversation.Destination, text string) {
	w.feed.Preview(key, text)
}
func (w watcher) Called(key conversation.Key, c agentloop.ToolCall) {
	w.feed.Tool(key, activity.ToolProgress{ID: c.ID, Name: c.Name, Arguments: c.Arguments, Done: c.Done, Error: c.Error})
}
func (w watcher) Committed(run conversation.Run, _ conversation.Committed) {
	w.feed.Committed(run.Key, run.ID())
}
func (w watcher) Titled(key conversation.Key, _ conversation.Destination, _ string) {
	w.feed.Changed(key)
}

// fetcher fetches from a channel that is made after it.
type fetcher struct{ from func() channels.Fetcher }

func (f fetcher) Fetch(ctx context.Context, _ string, file conversation.Attachment, limit int64) ([]byte, error) {
	return f.from().Fetch(ctx, file, limit)
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// get reads a page.
func (h *house) get(path string) (status int, body string, header http.Header) {
	h.t.Helper()
	answer, err := h.client.Get(h.url + path)
	h.must(err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	h.must(err)
	return answer.StatusCode, string(data), answer.Header
}

// page reads a page that must be there.
func (h *house) page(path string) string {
	h.t.Helper()
	status, body, _ := h.get(path)
	if status != http.StatusOK {
		h.t.Fatalf("%s answers %d: %s", path, status, body)
	}
	return body
}

// post sends a form as a page's script does, or with page as a browser without
// scripts does.
func (h *house) post(path string, fields url.Values, page bool, files ...sent) (status int, body string) {
	h.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for name, values := range fields {
		h.must(w.WriteField(name, values[0]))
	}
	for _, f := range files {
		header := textproto.MIMEHeader{"Content-Disposition": {multipart.FileContentDisposition("file", f.name)}, "Content-Type": {f.mediaType}}
		part, err := w.CreatePart(header)
		h.must(err)
		_, err = part.Write(f.data)
		h.must(err)
	}
	h.must(w.Close())
	r, err := http.NewRequest(http.MethodPost, h.url+path, &form)
	h.must(err)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Accept", "application/json")
	if page {
		r.Header.Set("Accept", "text/html")
	}
	answer, err := h.client.Do(r)
	h.must(err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	h.must(err)
	return answer.StatusCode, string(data)
}

// sent is a file that goes along with a message.
type sent struct {
	name, mediaType string
	data            []byte
}

// say sends a message that must be taken.
func (h *house) say(name, text string, files ...sent) {
	h.t.Helper()
	if status, body := h.post("/chat/"+name+"/messages", url.Values{"text": {text}}, false, files...); status != http.StatusAccepted {
		h.t.Fatalf("%q is answered %d: %s", text, status, body)
	}
}

// await waits until nothing of a chat waits for an answer.
func (h *house) await(name string) {
	h.t.Helper()
	watch := h.feed.Watch(conversation.Key("web:" + name))
	defer watch.Close()
	deadline := time.After(patience)
	for {
		waiting, err := h.store.Inbox(h.t.Context(), conversation.Key("web:"+name), 1)
		h.must(err)
		if len(waiting) == 0 {
			return
		}
		select {
		case <-watch.C():
		case <-deadline:
			h.t.Fatal("no answer comes")
		}
	}
}

// ask says something and waits for what comes of it.
func (h *house) ask(name, text string, files ...sent) {
	h.t.Helper()
	h.say(name, text, files...)
	h.await(name)
}

// active is a chat's active conversation.
func (h *house) active(name string) conversation.Conversation {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), conversation.Key("web:"+name))
	h.must(err)
	return c
}

// stream is a page that watches a chat.
type stream struct {
	h     *house
	body  io.Closer
	lines *bufio.Scanner
	at    string // the id of the last event
}

// update is what an event tells, as far as tests look at it.
type update struct {
	Reload  bool
	Entries *[]struct{ ID, HTML string }
	Waiting *string
	Working *bool
	Calls   *string
	Keep    int
	Blocks  *string
	Title   *string
	Chats   *string
}

// follow opens the stream of a chat from a place on.
func (h *house) follow(name, at string) *stream {
	h.t.Helper()
	r, err := http.NewRequest(http.MethodGet, h.url+"/chat/"+name+"/events", nil)
	h.must(err)
	r.Header.Set("Last-Event-ID", at)
	patient := http.Client{Jar: h.client.Jar} // a stream has no end
	answer, err := patient.Do(r)
	h.must(err)
	if answer.StatusCode != http.StatusOK {
		h.t.Fatalf("the stream answers %d", answer.StatusCode)
	}
	h.t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 4<<20)
	return &stream{h: h, body: answer.Body, lines: lines}
}

// next is the next update.
func (s *stream) next() (u update) {
	s.h.t.Helper()
	for s.lines.Scan() {
		if id, is := strings.CutPrefix(s.lines.Text(), "id: "); is {
			s.at = id
		}
		if data, is := strings.CutPrefix(s.lines.Text(), "data: "); is {
			s.h.must(json.Unmarshal([]byte(data), &u))
			return u
		}
	}
	s.h.t.Fatalf("the stream has ended: %v", s.lines.Err())
	return u
}

// until reads updates up to the first that is wanted.
func (s *stream) until(wanted func(update) bool) update {
	s.h.t.Helper()
	for {
		if u := s.next(); wanted(u) {
			return u
		}
	}
}

// brings reports whether an update has an entry with a text in it.
func (u update) brings(text string) bool {
	if u.Entries == nil {
		return false
	}
	for _, e := range *u.Entries {
		if strings.Contains(e.HTML, text) {
			return true
		}
	}
	return false
}
