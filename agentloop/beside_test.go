package agentloop

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/conversation/steps"
	"parley/conversation/usage"
	"parley/llm/llmtest"
)

// steps returns the model calls of the room's newest conversation by purpose, and the
// tokens that its trace and the statistics count.
func (h *harness) steps() (purposes string, traced, counted int64) {
	h.t.Helper()
	c, err := h.store.Active(h.t.Context(), room)
	if err != nil {
		h.t.Fatal(err)
	}
	u := usage.New(h.store)
	trace, err := u.Trace(h.t.Context(), usage.TraceQuery{Conversation: c.ID})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, run := range trace.Runs {
		for _, step := range run.Steps {
			purposes += " " + string(step.Kind) + ":" + string(step.Purpose)
		}
	}
	for _, m := range trace.Models {
		traced += m.Prompt + m.Completion
	}
	stats, err := u.Stats(h.t.Context(), time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour), time.Hour)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range stats.Models {
		counted += m.Prompt + m.Completion
	}
	return strings.TrimSpace(purposes), traced, counted
}

// The cost of a title is shown and counted with the run that it follows.
func TestCallForATitleIsAStep(t *testing.T) {
	t.Parallel()
	h := newTitleHarness(t, func() llmtest.Answer { return llmtest.Answer{Text: "A flat tyre"} })
	h.ask(room, "my tyre is flat")
	until(t, "the title", func() bool { return h.title() == "A flat tyre" })
	purposes, traced, counted := h.steps()
	if purposes != "model: model:title" {
		t.Errorf("the steps are %q", purposes)
	}
	spent := int64(0)
	h.mu.Lock()
	for _, run := range h.runs {
		spent += int64(run.Prompt + run.Completion)
	}
	h.mu.Unlock()
	if traced <= spent || counted != traced {
		t.Errorf("the run has %d tokens, the trace %d, the statistics %d", spent, traced, counted)
	}
}

func TestCallForASummaryIsAStep(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Strategy, p.KeepRecent = Summarization, 2 })
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Messages[0].Content == summaryPrompt {
			return llmtest.Answer{Text: "they spoke of words"}
		}
		return llmtest.Echo(c)
	})
	for range 8 {
		h.ask(room, strings.Repeat("many words ", 200))
	}
	until(t, "the summary's step", func() bool {
		purposes, _, _ := h.steps()
		return strings.Contains(purposes, "model:summary")
	})
}

// A conversation that follows an expired one opens with a summary of it, which is made
// once.
func TestConversationOpensWithASummaryOfTheOneBefore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Limits.Messages, p.CarrySummary = 2, true })
	made := 0
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Messages[0].Content != openingPrompt {
			return llmtest.Echo(c)
		}
		made++
		if !strings.Contains(c.Messages[1].Content, "the boat is blue") {
			t.Errorf("it is made of %q", c.Messages[1].Content)
		}
		return llmtest.Answer{Text: "They own a blue boat."}
	})
	h.ask(room, "the boat is blue")
	h.ask(room, "and now?")
	const told = "[Summary of the conversation before this one]\nThey own a blue boat."
	if !strings.Contains(h.told(), told) {
		t.Errorf("the model is told %s", h.told())
	}
	if purposes, _, _ := h.steps(); purposes != "model:summary model:" {
		t.Errorf("the steps are %q", purposes)
	}
	h.end()
	h.start()
	h.ask(room, "/retry")
	if !strings.Contains(h.told(), told) || made != 1 {
		t.Errorf("after a restart it was made %d times: %s", made, h.told())
	}
}

// When the model fails on the summary, only the summary is missing.
func TestConversationBeginsWithoutTheSummaryThatFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Limits.Messages, p.CarrySummary = 2, true })
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Messages[0].Content == openingPrompt {
			return llmtest.Answer{Status: http.StatusInternalServerError}
		}
		return llmtest.Echo(c)
	})
	h.ask(room, "one")
	if got := h.ask(room, "two"); !strings.HasSuffix(got, "\n\necho: two") {
		t.Errorf("the answer: %q", got)
	}
	if got := h.told(); strings.Contains(got, "Summary of") {
		t.Errorf("the model is told %s", got)
	}
	c, err := h.store.Active(t.Context(), room)
	if err != nil || c.State.Before != "" {
		t.Errorf("%+v, %v", c.State, err)
	}
}

// The statistics keep the cost of a deleted conversation's calls.
func TestCostOfADeletedConversationIsCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	step := steps.Step{Kind: steps.Model, Name: "fake", At: time.Now(), Prompt: 7, Completion: 3, Purpose: steps.PurposeTitle}
	b := usage.Background{Conversation: "gone", Run: 1, Channel: "cli", Steps: []steps.Step{step}}
	if err := usage.New(h.store).AddBackground(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	h.ask(room, "/title hello")
	if _, _, counted := h.steps(); counted != 10 {
		t.Errorf("%d tokens are counted", counted)
	}
}
