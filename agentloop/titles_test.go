package agentloop

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/internal/waittest"
	"parley/llm/llmtest"
)

// newTitleHarness returns a harness whose model answers requests for a title with name.
func newTitleHarness(t *testing.T, name func() llmtest.Answer) *harness {
	h := newHarness(t, func(p *Deps) { p.Config.Titles = true })
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Messages[0].Content == titlePrompt {
			return name()
		}
		return llmtest.Echo(c)
	})
	return h
}

func (h *harness) title() string {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), room)
	if err != nil {
		h.t.Fatal(err)
	}
	return c.Title
}

func TestModelNamesTheConversationInTheBackground(t *testing.T) {
	t.Parallel()
	end, answer := waittest.Gate(t)
	h := newTitleHarness(t, func() llmtest.Answer {
		<-end
		return llmtest.Answer{Text: "\n**\"Ein plattes Rad.\"**\nas you wished"}
	})
	for _, text := range []string{"Mein Rad ist platt", "und jetzt?"} { // nobody waits for the title
		if got := h.ask(room, text); got != "echo: "+text {
			t.Fatalf("reply: %q", got)
		}
	}
	answer()
	until(t, "the title", func() bool { return h.title() == "Ein plattes Rad" })
	until(t, "the place to be told", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Contains(h.titled, "cli:room Ein plattes Rad")
	})
	h.ask(room, "danke")
	if got := h.title(); got != "Ein plattes Rad" {
		t.Errorf("the next run made it %q", got)
	}
	if got := h.ask(room, "/title"); !strings.Contains(got, "Ein plattes Rad") {
		t.Errorf("/title: %q", got)
	}
}

// A title that a person has set, or that a place has, is never replaced.
func TestTitlesThatWereGivenAreKept(t *testing.T) {
	t.Parallel()
	h := newTitleHarness(t, func() llmtest.Answer { t.Error("the model was asked for a title"); return llmtest.Answer{Text: "no"} })
	h.ask(room, "/new Bikes")
	h.ask(room, "my tyre is flat")
	in := h.inbound("cli:thread", "hello")
	in.Title = "A thread"
	h.accept(in)
	h.reply("cli:thread")
	h.ask("cli:thread", "more")
	if got := h.title(); got != "Bikes" {
		t.Errorf("title %q", got)
	}
	c, err := h.store.Active(t.Context(), "cli:thread")
	if err != nil || c.Title != "A thread" {
		t.Errorf("title %q, %v", c.Title, err)
	}
}

// A title that arrives late does not replace the one that somebody has given meanwhile.
func TestLateTitleOfTheModelDoesNotReplaceAPersonsTitle(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 9)
	end, answer := waittest.Gate(t)
	h := newTitleHarness(t, func() llmtest.Answer { asked <- struct{}{}; <-end; return llmtest.Answer{Text: "By the model"} })
	h.ask(room, "hello")
	waittest.Receive(t, asked, "the model is asked for a title")
	h.ask(room, "/title Mine")
	answer()
	h.ask(room, "more")
	h.end()
	if got := h.title(); got != "Mine" {
		t.Errorf("title %q", got)
	}
}

func TestWithoutATitleOfTheModelTheFirstLineStays(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]llmtest.Answer{
		"failure": {Status: http.StatusBadRequest},
		"nothing": {Text: "\"\" **"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tried := make(chan struct{}, 9)
			h := newTitleHarness(t, func() llmtest.Answer { tried <- struct{}{}; return answer })
			h.ask(room, "first line\nsecond")
			waittest.Receive(t, tried, "the model is asked for a title")
			if got := h.ask(room, "next"); got != "echo: next" {
				t.Errorf("reply %q", got)
			}
			if got := h.title(); got != "first line" {
				t.Errorf("title %q", got)
			}
		})
	}
}

func TestSomeSessionsGetNoTitleOfTheModel(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) {
		p.Config.Titles = true
		p.OfPrograms = func(key conversation.Key) bool { return key == room }
	})
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Messages[0].Content == titlePrompt {
			return llmtest.Answer{Text: "A name"}
		}
		return llmtest.Echo(c)
	})
	h.ask(room, "task 1")
	h.ask("cli:elsewhere", "hello")
	until(t, "the title elsewhere", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Contains(h.titled, "cli:elsewhere A name")
	})
	if got := h.title(); got != "task 1" {
		t.Errorf("the title: %q", got)
	}
	if n := len(h.server.Calls()); n != 3 {
		t.Errorf("%d calls of the model", n)
	}
}
