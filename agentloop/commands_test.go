package agentloop

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/llm/llmtest"
)

func TestCommandsAreDistinguishedFromText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/new":                "new",
		"/NEW a title":        "new",
		"  /history 3 2":      "history",
		"/etc/hosts is what?": "",
		"/ new":               "",
		"a /new":              "",
		"/new\nlines":         "new",
		"/":                   "",
		"//new":               "",
	} {
		command, is := conversation.Inbound{Text: text}.Command()
		if is != (want != "") || command.Name != want {
			t.Errorf("%q: %+v, %v", text, command, is)
		}
	}
}

func TestUnknownCommandGetsAHintAndNotTheModel(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for text, want := range map[string]string{"/histroy": "Did you mean /history?", "/foo": "There is no command /foo. /help lists the commands."} {
		if got := h.ask(room, text); !strings.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
	if n := len(h.server.Calls()); n != 0 {
		t.Errorf("the model was called %d times", n)
	}
}

func TestNewKeepsTheOldConversationInTheHistory(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "about cats")
	if got := h.ask(room, "/new Dogs"); !strings.Contains(got, "“Dogs”") || !strings.Contains(got, "“about cats”, with 2 messages, is kept") {
		t.Fatalf("new: %q", got)
	}
	h.ask(room, "about dogs")
	if got := h.ask(room, "/history"); !strings.Contains(got, "about dogs") || strings.Contains(got, "cats") || !strings.Contains(got, "/history list") {
		t.Fatalf("history: %q", got)
	}
	if got := h.ask(room, "/history list"); !strings.Contains(got, "#1 Dogs") || !strings.Contains(got, "#2 about cats") {
		t.Fatalf("list: %q", got)
	}
	if got := h.ask(room, "/history #2"); !strings.Contains(got, "**You:** about cats") {
		t.Fatalf("the earlier one: %q", got)
	}
	calls := h.server.Calls()
	if n := len(calls[len(calls)-1].Messages); n != 2 {
		t.Fatalf("the new conversation was shown %d messages", n)
	}
}

func TestHistoryIsPagedAndExplainsWrongArguments(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for i := range 5 {
		h.ask(room, fmt.Sprintf("question %d", i))
	}
	first := h.ask(room, "/history 2")
	if !strings.Contains(first, "question 4") || strings.Contains(first, "question 2") || !strings.Contains(first, "`/history 2 2`") {
		t.Fatalf("first page: %q", first)
	}
	if last := h.ask(room, "/history 2 3"); !strings.Contains(last, "question 0") || strings.Contains(last, "Older:") {
		t.Fatalf("last page: %q", last)
	}
	for _, wrong := range []string{"/history x", "/history 0", "/history 51", "/history 1 2 3", "/history #9", "/history #x", "/history list x"} {
		if got := h.ask(room, wrong); !strings.Contains(got, "/history") || strings.Contains(got, "Something went wrong") {
			t.Errorf("%s: %q", wrong, got)
		}
	}
}

func TestClearAsksFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	if got := h.ask(room, "/clear"); !strings.Contains(got, "nothing to delete") {
		t.Fatalf("clear of nothing: %q", got)
	}
	h.ask(room, "secret plan")
	if got := h.ask(room, "/clear"); !strings.Contains(got, "/clear yes") || len(h.history(room)) != 2 {
		t.Fatalf("clear: %q", got)
	}
	if got := h.ask(room, "/clear yes"); !strings.Contains(got, "Deleted") || len(h.history(room)) != 0 {
		t.Fatalf("clear yes: %q, %q", got, h.history(room))
	}
}

// A second /new does not add another empty conversation.
func TestNewOnAnEmptyConversationKeepsIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	if got := h.ask(room, "/new"); got != "A new conversation begins." {
		t.Fatalf("new: %q", got)
	}
	h.ask(room, "about cats")
	h.ask(room, "/new")
	before, err := h.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	h.ask(room, "/new")
	if after, err := h.store.Active(t.Context(), room); err != nil || after.ID != before.ID {
		t.Fatalf("the empty conversation %s was followed by %s, %v", before.ID, after.ID, err)
	}
	h.ask(room, "about dogs")
	if got := h.ask(room, "/history list"); !strings.Contains(got, "#1 about dogs") || !strings.Contains(got, "#2 about cats") || strings.Contains(got, "#3") {
		t.Fatalf("list: %q", got)
	}
}

// After an outage, /retry answers all unanswered questions at once.
func TestRetryAfterAnOutageAnswersAllThatGotNoAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "zero")
	h.server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: http.StatusBadRequest} })
	for _, text := range []string{"one", "two", "three"} {
		h.ask(room, text)
	}
	h.ask(room, "/retry") // which fails too
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		var asked []string
		for _, m := range c.Messages[1:] {
			asked = append(asked, m.Content)
		}
		return llmtest.Answer{Text: strings.Join(asked, ", ")}
	})
	const all = "zero, echo: zero, one, two, three"
	for range 2 { // the second time, the answer is replaced
		if got := h.ask(room, "/retry"); got != all {
			t.Fatalf("the model was shown %q", got)
		}
	}
	want := []string{"user: zero", "assistant: echo: zero", "user: one", "user: two", "user: three", "assistant: " + all}
	if diff := cmp.Diff(want, h.history(room)); diff != "" {
		t.Fatal(diff)
	}
	if got := h.ask(room, "/help"); !strings.Contains(got, "all that got no answer") {
		t.Fatalf("help does not say it: %q", got)
	}
}

func TestStatusListsModelSessionAndLimits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "hello there")
	got := h.ask(room, "/status")
	for _, part := range []string{"fake", "hello there", "**Messages:** 2", "in the window of at most 4000", "less than a minute"} {
		if !strings.Contains(got, part) {
			t.Errorf("status %q lacks %q", got, part)
		}
	}
}

func TestCommandsKeepTheirPlaceInTheOrder(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.say(room, "one", "/new", "two", "/history", "three")
	want := []string{"echo: one", "A new conversation begins", "echo: two", "two", "echo: three"}
	for _, part := range want {
		if got := h.reply(room); !strings.Contains(got, part) {
			t.Fatalf("got %q, want %q", got, part)
		}
	}
}

func TestStartIgnoresItsArgument(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for _, text := range []string{"/start", "/start eyJhIjoxfQ"} {
		in := h.inbound(room, text)
		in.Sender = conversation.Sender{ID: "1", Name: "Ada"}
		h.accept(in)
		if got := h.reply(room); !strings.HasPrefix(got, "Hello, Ada! Write to me") || !strings.Contains(got, "/help") {
			t.Errorf("%s: %q", text, got)
		}
	}
	in := h.inbound(room, "/start")
	in.Group = true
	h.accept(in)
	if got := h.reply(room); !strings.Contains(got, "Mention me") {
		t.Errorf("in a group: %q", got)
	}
	if got := h.ask(room, "/help"); strings.Contains(got, "/start") {
		t.Errorf("help: %q", got)
	}
}

// A turn may have the messages of several people, all of which /undo takes back: the group is told of each.
func TestUndoNamesAllMessagesThatItTakesBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.accept(h.inGroup("what is one?", "1", "Ada"), h.inGroup("what is two?", "2", "Bob"))
	h.reply(room)
	h.accept(h.inGroup("/undo", "3", "Cem"))
	if got, want := h.reply(room), "Taken back: “what is one?” (Ada), “what is two?” (Bob) and what followed."; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	var many []conversation.Inbound
	for n := range 7 {
		many = append(many, h.inbound(room, fmt.Sprint(n)))
	}
	h.accept(many...)
	h.reply(room)
	if got, want := h.ask(room, "/undo"), "Taken back: “0”, “1”, “2”, “3”, “4”, 2 further messages and what followed."; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
