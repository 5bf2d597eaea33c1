package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/waittest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

const room = conversation.Key("cli:room")

// harness runs a router on a real store and a fake model server.
type harness struct {
	t             *testing.T
	store         *conversation.Store
	server        *llmtest.Server
	router        *Router
	deps          Deps
	end           func()
	wrote         chan struct{} // a reply was committed
	mu            sync.Mutex
	said          int
	brought       []string                    // names of the pictures of the replies
	shown         map[conversation.Key]string // the latest preview
	thought       map[conversation.Key]string // the latest preview of the reasoning
	shownThoughts []string                    // all previews of the reasoning, in order
	titled        []string                    // sessions with the titles that their conversations got
	alive         map[conversation.Key]int    // runs under way
	called        []ToolCall                  // in the order of Called
	runs          []conversation.Run          // as they were committed

	endedBefore []conversation.Key // whose runs were over before they were stored

	copying sync.Once
	copied  string // what to open of the copy that copyOnce has made; "" = none
}

func newHarness(t *testing.T, change func(*Deps)) *harness {
	t.Helper()
	return newHarnessOn(t, storetest.New(t), change)
}

func newHarnessOn(t *testing.T, store *conversation.Store, change func(*Deps)) *harness {
	t.Helper()
	h := &harness{t: t, store: store, server: llmtest.New(t), wrote: make(chan struct{}, 4096),
		shown: map[conversation.Key]string{}, thought: map[conversation.Key]string{}, alive: map[conversation.Key]int{}}
	registry, err := tools.NewRegistry(
		tools.CurrentTime(func() time.Time { return time.Date(2026, 5, 1, 9, 30, 0, 0, time.UTC) }, nil),
		tools.Tool{Name: "fails", Parameters: json.RawMessage(`{"type":"object"}`), Call: tools.Text(func(context.Context, json.RawMessage) (string, error) {
			return "", errors.New("the mill is broken")
		})},
	)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	h.deps = Deps{
		Config: DefaultConfig(),
		Store:  store,
		Model: llm.NewClient(llm.Config{BaseURL: h.server.URL(), APIKey: "key", Model: "fake",
			RetryBase: time.Millisecond, MaxTries: 2, OutageAfter: time.Hour}, log), // on a slow machine, answers that tests make fail would be an outage
		Counter:       llm.NewCounter("fake"),
		Tools:         registry,
		Watcher:       h,
		Deliver:       func([]conversation.Delivery) { h.wrote <- struct{}{} },
		ReleaseMemory: func() {},
		Budget:        4000,
		Log:           log,
	}
	h.deps.Config.Titles = false // they are calls of the model that most tests do not count
	if change != nil {
		change(&h.deps)
	}
	h.start()
	t.Cleanup(func() { h.end(); store.Close() })
	return h
}

func (h *harness) start() {
	h.router = NewRouter(h.deps)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.router.Run(ctx, context.Background(), conversation.Scope{Channel: "cli"})
	}()
	h.end = sync.OnceFunc(func() { cancel(); <-done })
}

func (h *harness) Working(ctx context.Context, key conversation.Key, _ []conversation.Inbound, _ conversation.Destination) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alive[key]++
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.alive[key]--
	})
}

func (h *harness) Called(_ conversation.Key, call ToolCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.called = append(h.called, call)
}

func (h *harness) Committed(run conversation.Run, _ conversation.Committed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = append(h.runs, run)
	if run.Kind == conversation.KindAgent && h.alive[run.Key] == 0 {
		h.endedBefore = append(h.endedBefore, run.Key)
	}
}

func (h *harness) Asked(conversation.Key) { h.wrote <- struct{}{} }

func (h *harness) Titled(key conversation.Key, _ conversation.Destination, title string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.titled = append(h.titled, string(key)+" "+title)
}

func (h *harness) Preview(key conversation.Key, _ conversation.Destination, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shown[key] = text
}

func (h *harness) Waiting(key conversation.Key, to conversation.Destination, w Wait) {
	h.Preview(key, to, w.Notice+w.Words)
}

func (h *harness) Thinking(key conversation.Key, _ conversation.Destination, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.thought[key] = text
	h.shownThoughts = append(h.shownThoughts, text)
}

func (h *harness) preview(key conversation.Key) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shown[key]
}

func (h *harness) inbound(key conversation.Key, text string) conversation.Inbound {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said++
	id := fmt.Sprint(h.said)
	return conversation.Inbound{Key: key, SourceID: id, Address: id, Text: text, At: time.Now()}
}

// say stores messages and wakes the router, as a channel does.
func (h *harness) say(key conversation.Key, list ...string) {
	h.t.Helper()
	var batch []conversation.Inbound
	for _, text := range list {
		batch = append(batch, h.inbound(key, text))
	}
	h.accept(batch...)
}

func (h *harness) accept(batch ...conversation.Inbound) {
	h.t.Helper()
	stored, err := h.store.Accept(h.t.Context(), nil, batch...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.router.Accepted(stored...)
}

// reply waits for the session's next reply and takes it, as delivery does.
func (h *harness) reply(key conversation.Key) string {
	h.t.Helper()
	for {
		due, err := h.store.Deliveries(h.t.Context(), conversation.DeliveryQuery{Key: key, Ready: true, Limit: 1})
		if err != nil {
			h.t.Fatal(err)
		}
		if len(due) > 0 {
			if err := h.store.Mark(h.t.Context(), due[0], conversation.MarkSent, ""); err != nil {
				h.t.Fatal(err)
			}
			for _, picture := range due[0].Pictures {
				h.brought = append(h.brought, picture.Name)
			}
			return due[0].Text
		}
		select {
		case <-h.wrote:
		case <-time.After(waittest.Patience):
			h.t.Fatal("no reply")
		}
	}
}

func (h *harness) ask(key conversation.Key, text string) string {
	h.t.Helper()
	h.say(key, text)
	return h.reply(key)
}

func (h *harness) history(key conversation.Key) []string {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	page, err := h.store.Messages(h.t.Context(), conversation.MessageQuery{Conversation: c.ID, Turns: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	var list []string
	for _, m := range page.Messages {
		list = append(list, string(m.Role)+": "+m.Content)
	}
	return list
}

// until waits until a condition holds, and fails the test after waittest.Patience.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waittest.Patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}
