package agentloop

import (
	"fmt"
	"strings"
	"testing"
)

func TestCommandsAreToldFromText(t *testing.T) {
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
		command, is := parseCommand(text)
		if is != (want != "") || command.name != want {
			t.Errorf("%q: %+v, %v", text, command, is)
		}
	}
}

func TestUnknownCommandGetsAHintAndNotTheModel(t *testing.T) {
	h := newHouse(t, nil)
	for text, want := range map[string]string{"/histroy": "Did you mean /history?", "/foo": "There is no command /foo. /help lists the commands."} {
		if got := h.ask(room, text); !strings.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
	if n := len(h.server.Calls()); n != 0 {
		t.Errorf("the model was called %d times", n)
	}
}

func TestNewKeepsTheOldAndHistoryFindsIt(t *testing.T) {
	h := newHouse(t, nil)
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

func TestHistoryPagesAndExplainsItself(t *testing.T) {
	h := newHouse(t, nil)
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
	h := newHouse(t, nil)
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

func TestStatusTellsWhatIsInUse(t *testing.T) {
	h := newHouse(t, nil)
	h.ask(room, "hello there")
	got := h.ask(room, "/status")
	for _, part := range []string{"fake", "hello there", "**Messages:** 2", "in the window of at most 4000", "less than a minute"} {
		if !strings.Contains(got, part) {
			t.Errorf("status %q lacks %q", got, part)
		}
	}
}

func TestCommandsKeepTheirPlaceInTheOrder(t *testing.T) {
	h := newHouse(t, nil)
	h.say(room, "one", "/new", "two", "/history", "three")
	want := []string{"echo: one", "A new conversation begins", "echo: two", "two", "echo: three"}
	for _, part := range want {
		if got := h.reply(room); !strings.Contains(got, part) {
			t.Fatalf("got %q, want %q", got, part)
		}
	}
}
