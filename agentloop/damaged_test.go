package agentloop

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/agentloop/command"
	"parley/conversation"
	"parley/conversation/storetest"
	"parley/internal/dbdamage"
	"parley/llm/llmtest"
)

const (
	quiet   = conversation.Key("cli:quiet")
	talking = conversation.Key("cli:talking")
)

// newDamagedHarness returns a harness with three sessions that hold messages. A database page of the
// session `quiet` is damaged.
func newDamagedHarness(t *testing.T, table string) *harness {
	t.Helper()
	storetest.NeedsSQLite(t)
	h := newHarness(t, nil)
	h.server.Reply(func(c llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: strings.Repeat("answer ", 100)} })
	for _, key := range []conversation.Key{room, quiet, talking} {
		for n := range 12 {
			h.ask(key, fmt.Sprintf("%d %s", n, strings.Repeat(string(key)+" ", 80)))
		}
	}
	h.end()
	path := h.store.Path()
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	pages := slices.DeleteFunc(dbdamage.Leaves(t, path, table), func(p dbdamage.Page) bool {
		return !p.Has(string(quiet)) || p.Has(string(room)) || p.Has(string(talking))
	})
	if len(pages) < 3 {
		t.Fatalf("%d pages are the session's alone", len(pages))
	}
	dbdamage.Destroy(t, path, pages[len(pages)/2])
	h.reopen(filepath.Clean(path))
	return h
}

// reopen restarts the harness on a database.
func (h *harness) reopen(path string) {
	h.t.Helper()
	store, err := conversation.Open(h.t.Context(), conversation.Config{Path: path})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.end(); store.Close() })
	h.store, h.deps.Store = store, store
	h.deps.Budget = 40_000 // so that the window would hold all of it
	h.start()
}

func TestDamagedConversationIsReportedInTheChat(t *testing.T) {
	t.Parallel()
	h := newDamagedHarness(t, "messages")
	asked := h.server.Served()
	for range 2 {
		if got := h.ask(quiet, "hello?"); got != command.Unreadable {
			t.Errorf("the user is told %q", got)
		}
	}
	if h.server.Served() != asked {
		t.Error("the model was asked about a conversation that can't be read")
	}
	for _, key := range []conversation.Key{room, talking} {
		if got := h.ask(key, "hello"); !strings.HasPrefix(got, "answer") {
			t.Errorf("%s got %q", key, got)
		}
	}
	for _, line := range []string{"/history 50", "/export", "/retry", "/undo", "/state", "/title x"} {
		if got := h.ask(quiet, line); got != command.Unreadable {
			t.Errorf("%s says %q", line, got)
		}
	}
	if got := h.ask(quiet, "/status"); !strings.Contains(got, "can't be read") {
		t.Errorf("/status says %q", got)
	}
	if got := h.ask(quiet, "/help"); !strings.Contains(got, "/new") {
		t.Errorf("/help says %q", got)
	}
	if got := h.ask(quiet, "/new"); !strings.HasPrefix(got, "A new conversation begins.") {
		t.Errorf("/new says %q", got)
	}
	for range 2 {
		if got := h.ask(quiet, "hello again"); !strings.HasPrefix(got, "answer") {
			t.Errorf("after /new the user is told %q", got)
		}
	}
	if got := h.history(quiet); len(got) != 4 {
		t.Errorf("the new conversation holds %d messages", len(got))
	}
}

// An answer that can't be stored is not sent: the gateway would not remember it.
func TestRunThatCannotBeStoredIsReportedInTheChat(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	h := newDamagedHarness(t, "messages")
	if got := h.ask(room, "/new"); !strings.HasPrefix(got, "A new") {
		t.Fatal(got)
	}
	h.end()
	path := h.store.Path()
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	leaves := dbdamage.Leaves(t, path, "messages")
	dbdamage.Destroy(t, path, leaves[len(leaves)-1]) // where every message would go
	h.reopen(path)
	for n := range 3 {
		asked := h.server.Served()
		if got := h.ask(room, "hello"); got != command.Unreadable {
			t.Errorf("the user is told %q", got)
		}
		if n > 0 && h.server.Served() != asked {
			t.Error("the model was asked again about a conversation that nothing can be added to")
		}
	}
	if got := h.ask(room, "/help"); !strings.Contains(got, "/new") {
		t.Errorf("/help says %q", got)
	}
}

func TestSearchOverADamagedIndexIsReported(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	h := newDamagedHarness(t, "messages")
	if err := h.store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.end()
	path := h.store.Path()
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, leaf := range dbdamage.Leaves(t, path, "messages_fts_data") {
		dbdamage.Destroy(t, path, leaf)
	}
	h.reopen(path)
	if got := h.ask(room, "/search answer"); got != command.Unsearchable {
		t.Errorf("/search says %q", got)
	}
	if got := h.ask(room, "hello"); !strings.HasPrefix(got, "answer") {
		t.Errorf("the user is told %q", got)
	}
}
