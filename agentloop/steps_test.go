package agentloop

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/steps"
	"parley/llm"
	"parley/llm/llmtest"
)

// committed waits until n runs are committed, and returns the newest.
func (h *harness) committed(n int) conversation.Run {
	h.t.Helper()
	var run conversation.Run
	until(h.t, fmt.Sprint(n, " runs"), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.runs) == n {
			run = h.runs[n-1]
		}
		return len(h.runs) == n
	})
	return run
}

// outline returns the steps of a run, a line for each.
func outline(steps []steps.Step) []string {
	var lines []string
	for _, s := range steps {
		line := fmt.Sprintf("%s %s", s.Kind, s.Name)
		if s.Error != "" {
			line += " failed"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestTraceListsModelAndToolCalls(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(
		llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "current_time", Arguments: "{}"}, {ID: "b", Name: "fails", Arguments: "{}"}},
			Usage: &llm.Usage{Prompt: 100, Completion: 20}},
		llmtest.Answer{Text: "Half past nine.", Usage: &llm.Usage{Prompt: 150, Completion: 5}},
	)
	h.ask(room, "what time is it?")
	run := h.committed(1)
	want := []string{"model fake", "tool current_time", "tool fails failed", "model fake"}
	if diff := cmp.Diff(want, outline(run.Steps)); diff != "" {
		t.Fatal(diff)
	}
	first, last := run.Steps[0], run.Steps[3]
	if first.Prompt != 100 || first.Completion != 20 || first.Shown != 1 || last.Prompt != 150 || last.Shown != 4 {
		t.Errorf("the model calls: %+v, %+v", first, last)
	}
	if first.Window <= 0 || last.Window <= first.Window || first.FirstByte <= 0 || first.FirstByte > first.Took {
		t.Errorf("windows and times: %+v, %+v", first, last)
	}
	if failed := run.Steps[2]; failed.CallID != "b" || failed.Error != "the mill is broken" || failed.At.Before(run.StartedAt) {
		t.Errorf("the tool call: %+v", failed)
	}
	var told []string
	for _, call := range h.called {
		told = append(told, fmt.Sprint(call.ID, " ", call.Done, " ", call.Error))
	}
	if len(told) != 4 || !strings.Contains(strings.Join(told, "\n"), "b true the mill is broken") {
		t.Errorf("who watches was told %q", told)
	}
}

func TestTraceListsFailedAttempts(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(llmtest.Answer{Status: http.StatusServiceUnavailable}, llmtest.Answer{Text: "Here I am."})
	h.ask(room, "hello?")
	if diff := cmp.Diff([]string{"model fake failed", "model fake"}, outline(h.committed(1).Steps)); diff != "" {
		t.Error(diff)
	}

	h.server.Reply(func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Status: http.StatusServiceUnavailable} })
	h.ask(room, "and now?")
	run := h.committed(2)
	if diff := cmp.Diff([]string{"model fake failed", "model fake failed"}, outline(run.Steps)); diff != "" || run.Status != conversation.StatusFailed {
		t.Errorf("the failed run is %s: %s", run.Status, diff)
	}
}

func TestTraceOfAStoppedRunListsItsSteps(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(llmtest.Answer{Text: "once upon a time", Silence: true, NoFinish: true})
	h.say(room, "tell me a tale")
	until(t, "the first words", func() bool { return strings.HasPrefix(h.preview(room), "once upon") })
	h.say(room, "/stop")
	h.reply(room)
	run := h.committed(1)
	if diff := cmp.Diff([]string{"model fake failed"}, outline(run.Steps)); diff != "" || run.Steps[0].Error != errStopped.Error() {
		t.Errorf("%+v %s", run.Steps, diff)
	}
}

func TestTraceSaysWhatTheWindowLeftOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(p *Deps) { p.Budget = 400 })
	const turns = 12
	for i := range turns {
		h.ask(room, fmt.Sprint("message ", i, strings.Repeat(" word", 30)))
	}
	step := h.committed(turns).Steps[0]
	if step.Left == 0 || step.Shown+step.Left != 2*turns-1 || step.Window > 400 {
		t.Errorf("%+v", step)
	}
}

// If a run ended before its answer is stored, a page would show nothing for a moment; if it ended
// later, the answer twice.
func TestRunIsShownAsActiveUntilItsAnswerIsStored(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.ask(room, "hello")
	h.committed(1)
	until(t, "the end of the run", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.alive[room] == 0
	})
	if len(h.endedBefore) > 0 {
		t.Errorf("over before they were stored: %v", h.endedBefore)
	}
}
