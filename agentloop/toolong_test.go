package agentloop

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"parley/agentloop/window"
	"parley/llm/llmtest"
	"parley/tools"
)

// limitedServer returns the answers of a server that accepts lists of up to most bytes of text, and
// refuses longer ones with a status and words.
func limitedServer(most int, status int, words string) func(llmtest.Call) llmtest.Answer {
	return func(c llmtest.Call) llmtest.Answer {
		bytes := 0
		for _, m := range c.Messages {
			bytes += len(m.Content)
		}
		if bytes > most {
			return llmtest.Answer{Status: status, Body: words}
		}
		return llmtest.Answer{Text: "answered"}
	}
}

// checkQuestions fails the test if a call contains so little of the question that nobody could
// understand it.
func (h *harness) checkQuestions(calls []llmtest.Call, question string) {
	h.t.Helper()
	for _, c := range calls {
		if asked := c.LastUser(); asked != question && (len(asked) < 200 || !strings.HasPrefix(asked, question[:50]) || !strings.HasSuffix(asked, question[len(question)-50:])) {
			h.t.Errorf("call %d asks %.300q", c.N, asked)
		}
	}
}

const (
	tooLarge   = "<html><h1>413 Request Entity Too Large</h1></html>"
	tooManySay = `{"error":{"message":"Please reduce the length of the messages.","code":"context_length_exceeded"}}`
)

// A message that the server always refuses is reported after few calls, and later
// messages are answered.
func TestShortMessageThatIsRefusedAsTooLongIsReported(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]llmtest.Answer{
		"413": {Status: http.StatusRequestEntityTooLarge, Body: tooLarge},
		"400": {Status: http.StatusBadRequest, Body: tooManySay},
	} {
		h := newHarness(t, nil)
		h.server.Script(llmtest.Answer{Text: "hello"}, answer, answer, answer, answer, answer, llmtest.Answer{Text: "still here"})
		h.ask(room, "hello")
		got := h.ask(room, "why is the sky blue?")
		if !strings.Contains(got, "refuses this message as too long") || !strings.Contains(got, "kept") {
			t.Errorf("%s: reply %q", name, got)
		}
		h.checkQuestions(h.server.Calls()[1:], "why is the sky blue?")
		if n := h.server.Served() - 1; n > 2 { // with what was said before, and without
			t.Errorf("%s: %d calls for a question that can't be shortened", name, n)
		}
		h.server.Reply(llmtest.Echo)
		if got := h.ask(room, "and now?"); got != "echo: and now?" {
			t.Errorf("%s: reply %q", name, got)
		}
		if m := h.messages(); len(m) != 5 || m[2].Content != "why is the sky blue?" {
			t.Errorf("%s: kept %q", name, h.history(room))
		}
	}
}

// A long message is cut to no less than a few sentences. If these are refused, too, the chat says so,
// the archive keeps the whole message, and the next message is answered.
func TestTooLongMessageIsReportedAndTheNextIsAnswered(t *testing.T) {
	t.Parallel()
	question := "First of all: " + strings.Repeat("word ", 4000) + "That was all."
	for name, test := range map[string]struct {
		status int
		words  string
	}{
		"413":               {http.StatusRequestEntityTooLarge, tooLarge},
		"permanent":         {http.StatusBadRequest, tooManySay},
		"with a limit":      {http.StatusBadRequest, `{"error":{"message":"This model's maximum context length is 300 tokens."}}`},
		"with a bad number": {http.StatusBadRequest, `{"error":{"message":"This model's maximum context length is 1 tokens."}}`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(p *Deps) { p.Config.SystemPrompt = "Be brief."; p.Budget = 20_000 })
			h.server.Reply(limitedServer(350, test.status, test.words))
			got := h.ask(room, question)
			if !strings.Contains(got, "too long for the model: it has about 20000 characters") || !strings.Contains(got, "shorten") {
				t.Errorf("reply %q", got)
			}
			h.checkQuestions(h.server.Calls(), question)
			first := h.server.Served()
			if first > 12 {
				t.Errorf("%d calls", first)
			}
			if m := h.messages(); len(m) != 1 || m[0].Content != question {
				t.Errorf("the archive has %.100q", h.history(room))
			}
			for range 3 {
				before := h.server.Served()
				if got := h.ask(room, "hello"); got != "answered" {
					t.Errorf("reply %q", got)
				}
				if n := h.server.Served() - before; n > 2 {
					t.Errorf("%d calls for a short message behind it", n)
				}
			}
		})
	}
}

// A long message is answered from the part of it that fits.
func TestLongMessageIsCutToWhatTheServerTakes(t *testing.T) {
	t.Parallel()
	question := "First of all: " + strings.Repeat("word ", 40_000) + "That was all."
	for name, test := range map[string]struct {
		words string
		calls int // at most
	}{
		"unknown limit": {tooLarge, 12},
		"named limit":   {"This model's maximum context length is 2000 tokens.", 2},
	} {
		h := newHarness(t, func(p *Deps) { p.Budget = 60_000 })
		h.server.Reply(limitedServer(8000, http.StatusRequestEntityTooLarge, test.words))
		if got := h.ask(room, question); got != "answered" {
			t.Errorf("%s: reply %q", name, got)
		}
		h.checkQuestions(h.server.Calls(), question)
		calls := h.server.Calls()
		if n := len(calls); n > test.calls {
			t.Errorf("%s: %d calls, at most %d were needed", name, n, test.calls)
		}
		if asked := calls[len(calls)-1].LastUser(); len(asked) < 2000 || !strings.Contains(asked, window.CutNotice) {
			t.Errorf("%s: asked %d bytes", name, len(asked))
		}
	}
}

// If the tools leave no room for a question, the model is not called, and the operator reads why in
// the log.
func TestToolsThatLeaveNoRoomForAQuestionAreReported(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) {
		registry, err := tools.NewRegistry(tools.Tool{Name: "large", Description: strings.Repeat("It does this and that. ", 1000),
			Parameters: json.RawMessage(`{"type":"object"}`)})
		if err != nil {
			t.Fatal(err)
		}
		p.Tools = registry
	})
	if got := h.ask(room, "hello"); !strings.Contains(got, "no room for your message") {
		t.Errorf("reply %q", got)
	}
	if n := h.server.Served(); n != 0 {
		t.Errorf("%d calls", n)
	}
	if run := h.committed(1); !strings.Contains(run.Error, "conversation.max_tokens") {
		t.Errorf("error %q", run.Error)
	}
}

func TestLengthsAreRounded(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 0, 7: 7, 99: 99, 123: 120, 20_027: 20_000, 99_999: 99_000} {
		if got := rounded(n); got != want {
			t.Errorf("rounded(%d) = %d, want %d", n, got, want)
		}
	}
}
