package agentloop

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"parley/conversation"
	"parley/conversation/kept"
	"parley/conversation/steps"
	"parley/conversation/usage"
	"parley/internal/waittest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools"
)

// messages returns the messages of the active conversation that people see.
func (h *harness) messages() []conversation.Message {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), room)
	if err != nil {
		h.t.Fatal(err)
	}
	page, err := h.store.Messages(h.t.Context(), conversation.MessageQuery{Conversation: c.ID, Turns: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	return page.Messages
}

func TestCutAnswerIsMarked(t *testing.T) {
	t.Parallel()
	const story = "Once upon a"
	for reason, words := range map[steps.FinishReason]string{
		steps.FinishLength:        "Cut off at the length limit",
		steps.FinishContentFilter: "Cut off by the content filter",
	} {
		h := newHarness(t, nil)
		h.server.Script(llmtest.Answer{Text: story, FinishReason: string(reason)}, llmtest.Answer{Text: "time."})
		if got := h.ask(room, "a story"); !strings.HasPrefix(got, story+"\n\n") || !strings.Contains(got, words) {
			t.Errorf("%s: reply %q", reason, got)
		}
		if got := h.ask(room, "go on"); got != "time." {
			t.Errorf("%s: reply %q", reason, got)
		}

		messages := h.messages()
		if m := messages[1]; m.Content != story || m.FinishReason != reason {
			t.Errorf("%s: stored %+v", reason, m)
		}
		if m := messages[3]; m.FinishReason != "" {
			t.Errorf("%s: the whole answer is stored as %+v", reason, m)
		}
		last := h.server.Calls()[1].Messages
		if m := last[len(last)-2]; m.Role != "assistant" || m.Content != story {
			t.Errorf("%s: the model is shown its answer as %+v", reason, m)
		}
		if got := h.ask(room, "/history"); !strings.Contains(got, story+" *("+reason.Words()+")*") || strings.Contains(got, "time. *(") {
			t.Errorf("%s: /history shows %q", reason, got)
		}
		c, err := h.store.Active(t.Context(), room)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := usage.New(h.store).Trace(t.Context(), usage.TraceQuery{Conversation: c.ID})
		if err != nil {
			t.Fatal(err)
		}
		if run := trace.Runs[0]; run.Status != conversation.StatusDone || run.FinishReason != reason || run.Steps[0].FinishReason != reason {
			t.Errorf("%s: traced as %+v", reason, run)
		}
		if run := trace.Runs[1]; run.FinishReason != "" || run.Steps[0].FinishReason != "" {
			t.Errorf("%s: the whole answer is traced as %+v", reason, run)
		}
	}
}

// The notice below an answer that ends in a code block is not code.
func TestNoticeStandsOutsideOfAnOpenCodeBlock(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(llmtest.Answer{Text: "Here:\n\n~~~~go\nfunc main() {\n", FinishReason: "length"})
	if got := h.ask(room, "code"); !strings.Contains(got, "func main() {\n~~~~\n\n✂") {
		t.Errorf("reply %q", got)
	}
	if got := h.ask(room, "/history"); !strings.Contains(got, "func main() {\n~~~~\n\n*(cut off") {
		t.Errorf("/history shows %q", got)
	}
}

// A program reads the model's own words, with the reason in a field.
func TestKeptReplyHoldsNoNotice(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(llmtest.Answer{Text: "Once upon a", FinishReason: "length"})
	in := h.inbound(room, "a story")
	in.Keep = true
	h.accept(in)
	var a kept.Answer
	until(t, "the answer", func() bool {
		var err error
		a, err = kept.New(h.store).Answer(t.Context(), "cli", in.SourceID)
		return err == nil && a.State == conversation.StatusDone
	})
	if a.Text != "Once upon a" || a.FinishReason != steps.FinishLength {
		t.Errorf("%+v", a)
	}
}

// The first half of a tool call may be a valid call with another meaning.
func TestCutToolCallsAreNotRun(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	h := newHarness(t, func(p *Deps) {
		registry, err := tools.NewRegistry(tools.Tool{Name: "delete", Parameters: json.RawMessage(`{"type":"object"}`),
			Call: tools.Text(func(context.Context, json.RawMessage) (string, error) { ran.Add(1); return "deleted", nil })})
		if err != nil {
			t.Fatal(err)
		}
		p.Tools = registry
	})
	h.server.Script(
		llmtest.Answer{Text: "I will", FinishReason: "length", ToolCalls: []llm.ToolCall{
			{ID: "a", Name: "delete", Arguments: `{"path":"/tmp/x"}`}, {ID: "b", Name: "delete", Arguments: `{"path":"/tmp`}, {ID: "c", Name: "delete"}}},
		llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "d", Name: "delete", Arguments: `{"path":"/tmp/x"}`}}},
		llmtest.Answer{Text: "Done."})
	if got := h.ask(room, "delete both"); got != "Done." {
		t.Errorf("reply %q", got)
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("the tool ran %d times, want once", n)
	}
	second := h.server.Calls()[1].Messages
	if len(second) != 6 || h.server.Refused() > 0 {
		t.Fatalf("the model is sent %+v; refused: %q", second, h.server.Refusals())
	}
	for _, m := range second[3:] {
		if m.Role != "tool" || !strings.HasPrefix(m.Content, "error: not run, because your answer was cut off") {
			t.Errorf("the model is told %+v", m)
		}
	}
}

// An answer that has only reasoning is reported as such.
func TestAnswerWithReasoningAloneIsReported(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(llmtest.Answer{Text: "\n\n", Reasoning: "hm", FinishReason: "length"})
	if got := h.ask(room, "prove it"); !strings.Contains(got, "length limit before it wrote a word") {
		t.Errorf("reply %q", got)
	}
}

func TestCutTitleIsNotTaken(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	h := newTitleHarness(t, func() llmtest.Answer {
		defer close(asked)
		return llmtest.Answer{Text: "How to", FinishReason: "length"}
	})
	h.ask(room, "Mein Rad ist platt")
	waittest.Receive(t, asked, "the model is asked for a title")
	h.end() // waits for the title, which is made in the background
	if got := h.title(); got != "Mein Rad ist platt" {
		t.Errorf("title %q", got)
	}
}

// A summary that a content filter cut off is not stored. One that the length limit cut off is
// stored, and says so.
func TestCutSummarySaysSo(t *testing.T) {
	t.Parallel()
	for reason, stored := range map[string]bool{"length": true, "content_filter": false} {
		var sums atomic.Int64
		h := newSummarizingHarness(t, func(llmtest.Call) llmtest.Answer {
			sums.Add(1)
			return llmtest.Answer{Text: "The talk is of", FinishReason: reason}
		})
		n := 0
		for ; n < 90; n++ { // the window has advanced, and holds the summary
			h.ask(room, fact(n))
		}
		until(t, "a summary", func() bool { return sums.Load() > 0 })
		if stored {
			h.untilSummary(n)
		}
		h.end()
		h.start()
		h.ask(room, "and now?")
		calls := h.server.Calls()
		system := calls[len(calls)-1].Messages[0].Content
		if calls[len(calls)-1].Messages[0].Content == summaryPrompt {
			system = calls[len(calls)-2].Messages[0].Content
		}
		if got := strings.Contains(system, "The talk is of\n"+cutSummary); got != stored {
			t.Errorf("%s: the model is told %q", reason, system)
		}
	}
}
