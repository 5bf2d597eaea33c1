package agentloop

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/llm/llmtest"
)

const month = 720 * time.Hour

// newAgingHarness returns a harness whose clock begins a year ago, and a function that
// advances it. Conversations expire after a month.
func newAgingHarness(t *testing.T) (h *harness, pass func(time.Duration)) {
	t.Helper()
	var passed atomic.Int64
	begin := time.Now().Add(-12 * month)
	clock := func() time.Time { return begin.Add(time.Duration(passed.Load())) }

	h = newHarness(t, nil)
	h.end()
	path := h.store.Path()
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.store, err = conversation.Open(t.Context(), conversation.Config{Path: path, Now: clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.end(); h.store.Close() })
	h.deps.Store, h.deps.Limits.Idle = h.store, month
	h.start()
	return h, func(d time.Duration) { passed.Add(int64(d)) }
}

const expired = "A new conversation begins: the last one was not used for 31 days. /history list has it.\n\n"

// After a month without messages, the first reply says that a new conversation begins. The model is
// shown nothing of the old one, which the user finds in the list.
func TestMessageAfterAMonthBeginsANewConversationAndSaysSo(t *testing.T) {
	t.Parallel()
	h, pass := newAgingHarness(t)
	h.server.Script(llmtest.Answer{Text: "in winter"}, llmtest.Answer{Text: "in spring"}, llmtest.Answer{Text: "and later"})
	h.ask(room, "first talk")
	pass(31 * 24 * time.Hour)
	if got := h.ask(room, "second talk"); got != expired+"in spring" {
		t.Errorf("the answer reads %q", got)
	}
	if got := h.preview(room); !strings.HasPrefix(got, expired) {
		t.Errorf("while it is written it reads %q", got)
	}
	if got := h.ask(room, "go on"); got != "and later" {
		t.Errorf("the answer after it reads %q", got)
	}
	calls := h.server.Calls()
	for i, want := range []int{2, 2, 4} { // system prompt, turns, question
		if got := len(calls[i].Messages); got != want {
			t.Errorf("call %d has %d messages, want %d", i, got, want)
		}
	}
	if got := strings.Join(h.history(room), "; "); got != "user: second talk; assistant: in spring; user: go on; assistant: and later" {
		t.Errorf("kept: %s", got)
	}
	if got := h.ask(room, "/history list"); !strings.Contains(got, "#2 first talk") {
		t.Errorf("the list: %s", got)
	}
}

// Commands after a month apply to the old conversation and do not end it: /history
// shows it, /status says that it has expired, and /retry goes on with it.
func TestCommandsAfterARestStillFindTheConversation(t *testing.T) {
	t.Parallel()
	h, pass := newAgingHarness(t)
	h.server.Script(llmtest.Answer{Text: "one answer"}, llmtest.Answer{Text: "a better one"}, llmtest.Answer{Text: "more"})
	h.ask(room, "first talk")
	pass(2 * month)
	if got := h.ask(room, "/history"); !strings.Contains(got, "one answer") {
		t.Errorf("/history: %s", got)
	}
	if got := h.ask(room, "/status"); !strings.Contains(got, "first talk") || !strings.Contains(got, "the next message begins a new conversation") {
		t.Errorf("/status: %s", got)
	}
	if got := h.ask(room, "/retry"); got != "a better one" {
		t.Errorf("/retry: %s", got)
	}
	if got := h.ask(room, "go on"); got != "more" {
		t.Errorf("after the /retry, which used it again: %s", got)
	}
}

// The first message after a month begins a new conversation even if the model fails.
func TestFailedAnswerAfterARestBeginsANewConversation(t *testing.T) {
	t.Parallel()
	h, pass := newAgingHarness(t)
	h.server.Script(llmtest.Answer{Text: "old"}, llmtest.Answer{Status: http.StatusInternalServerError}, llmtest.Answer{Status: http.StatusInternalServerError}, llmtest.Answer{Text: "new"})
	h.ask(room, "first talk")
	pass(31 * 24 * time.Hour)
	if got := h.ask(room, "second talk"); !strings.HasPrefix(got, expired) || !strings.Contains(got, "/retry") {
		t.Errorf("it says %q", got)
	}
	if got := h.ask(room, "/retry"); got != "new" {
		t.Errorf("/retry: %q", got)
	}
	if got := strings.Join(h.history(room), "; "); got != "user: second talk; assistant: new" {
		t.Errorf("kept: %s", got)
	}
}

// A message that a /stop has settled begins the new conversation, too.
func TestStoppedMessageAfterARestBeginsANewConversation(t *testing.T) {
	t.Parallel()
	h, pass := newAgingHarness(t)
	h.server.Script(llmtest.Answer{Text: "old"}, llmtest.Answer{Text: "new"})
	h.ask(room, "first talk")
	pass(31 * 24 * time.Hour)
	h.say(room, "second talk", "/stop")
	if got := h.reply(room); !strings.HasPrefix(got, expired) || !strings.Contains(got, "Stopped") {
		t.Errorf("it says %q", got)
	}
	if got := h.ask(room, "go on"); got != "new" {
		t.Errorf("after it: %q", got)
	}
	if got := strings.Join(h.history(room), "; "); got != "user: second talk; user: go on; assistant: new" {
		t.Errorf("kept: %s", got)
	}
}
