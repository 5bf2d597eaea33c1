package agentloop

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/llm/llmtest"
)

// factPattern matches the users' messages in these tests: "fact 12".
var factPattern = regexp.MustCompile(`fact (\d+)`)

func facts(text string) []int {
	var list []int
	for _, found := range factPattern.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(found[1])
		list = append(list, n)
	}
	return list
}

// newSummarizingHarness returns a harness that makes summaries. Its model summarizes facts by naming
// the last one, when sum returns.
func newSummarizingHarness(t *testing.T, sum func(c llmtest.Call) llmtest.Answer) *harness {
	h := newHarness(t, func(p *Deps) { p.Strategy, p.KeepRecent = Summarization, 10 })
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.Messages[0].Content == summaryPrompt {
			return sum(c)
		}
		return llmtest.Answer{Text: "noted"}
	})
	return h
}

// lastFact answers with the last fact of the question, or with fact -1 if one before it is missing.
func lastFact(c llmtest.Call) llmtest.Answer {
	question := c.LastUser()
	next := 0
	if strings.HasPrefix(question, "The summary so far") {
		head, tail, _ := strings.Cut(question, "What followed")
		next, question = facts(head)[0]+1, tail
	}
	for _, n := range facts(question) {
		if n != next {
			return llmtest.Answer{Text: fmt.Sprintf("fact -1: the model was given %d and not %d", n, next)}
		}
		next++
	}
	return llmtest.Answer{Text: fmt.Sprintf("All up to fact %d.", next-1)}
}

func fact(n int) string { return fmt.Sprintf("fact %d%s", n, strings.Repeat(" and so on", 12)) }

// Over two hundred turns with slow summaries, the model is shown the summary and everything after it,
// the archive holds every word, and no answer waits for a summary.
func TestWindowIsTheSummaryAndAllAfterIt(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	step := make(chan struct{})
	h := newSummarizingHarness(t, func(c llmtest.Call) llmtest.Answer { asked.Add(1); <-step; return lastFact(c) })
	defer close(step)
	const talk = 200
	finished := int64(0)
	for n := range talk {
		if got := h.ask(room, fact(n)); got != "noted" {
			t.Fatalf("turn %d: %q", n, got)
		}
		if n%7 == 6 && asked.Load() > finished { // now and then a summary is finished, a few turns late
			select {
			case step <- struct{}{}:
			case <-time.After(90 * time.Second):
				t.Fatal("no summary waits to be finished")
			}
			finished++
		}
	}
	if finished < 3 {
		t.Fatalf("only %d summaries were finished", finished)
	}
	summaries := 0
	for _, c := range h.server.Calls() {
		if c.Messages[0].Content == summaryPrompt {
			continue
		}
		system := c.Messages[0].Content
		next := 0
		if _, text, is := strings.Cut(system, "[Summary of the conversation"); is {
			next = facts(text)[0] + 1
			summaries++
		}
		if strings.Contains(system, "messages of this conversation are not shown") {
			t.Fatalf("call %d leaves out messages: %s", c.N, system)
		}
		for _, m := range c.Messages[1:] {
			for _, n := range facts(m.Content) {
				if n != next {
					t.Fatalf("call %d: fact %d follows, and not %d", c.N, n, next)
				}
				next++
			}
		}
	}
	if summaries == 0 {
		t.Fatal("no window had a summary")
	}
	for i, line := range h.history(room) {
		want := "assistant: noted"
		if i%2 == 0 {
			want = "user: " + fact(i/2)
		}
		if line != want {
			t.Fatalf("the archive holds %q as message %d, want %q", line, i, want)
		}
	}
	if n := len(h.history(room)); n != 2*talk {
		t.Errorf("the archive holds %d messages of %d", n, 2*talk)
	}
}

// summaryShown returns the summary in the window of the latest answer.
func (h *harness) summaryShown() string {
	calls := h.server.Calls()
	for i := len(calls) - 1; i >= 0; i-- {
		if system := calls[i].Messages[0].Content; system != summaryPrompt {
			_, text, _ := strings.Cut(system, "[Summary of the conversation")
			return text
		}
	}
	return ""
}

// untilSummary sends facts from fact n on until the model is shown a summary, and returns the number
// of the next fact.
func (h *harness) untilSummary(n int) int {
	h.t.Helper()
	for range 200 {
		h.ask(room, fact(n))
		n++
		if h.summaryShown() != "" {
			return n
		}
	}
	h.t.Fatal("never a summary")
	return n
}

// A summary must not contain what was taken back.
func TestSummaryOfWhatWasTakenBackIsDropped(t *testing.T) {
	t.Parallel()
	h := newSummarizingHarness(t, lastFact)
	n := h.untilSummary(0)
	covered := facts(h.summaryShown())[0]
	for range n - covered {
		h.ask(room, "/undo")
	}
	h.ask(room, fact(covered))
	if got := h.summaryShown(); got != "" && facts(got)[0] >= covered { // one of what is left may have been made meanwhile
		t.Errorf("the model is still told %q", got)
	}
}

// The summary is used again after a restart and after /resume.
func TestSummaryIsStored(t *testing.T) {
	t.Parallel()
	h := newSummarizingHarness(t, lastFact)
	n := h.untilSummary(0)
	h.end()
	h.start()
	h.ask(room, fact(n))
	if h.summaryShown() == "" {
		t.Error("forgotten by a restart")
	}
	h.ask(room, "/new")
	h.ask(room, "hello")
	if h.summaryShown() != "" {
		t.Error("another conversation is shown it")
	}
	h.ask(room, "/resume 2")
	h.ask(room, fact(n+1))
	if h.summaryShown() == "" {
		t.Error("the resumed conversation has lost it")
	}
}

// Answers go on without a summary when the model fails to make one.
func TestSummariserThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]llmtest.Answer{
		"refusal": {Status: http.StatusBadRequest},
		"blank":   {Text: " \n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tried atomic.Int64
			h := newSummarizingHarness(t, func(llmtest.Call) llmtest.Answer { tried.Add(1); return answer })
			for n := range 80 {
				if got := h.ask(room, fact(n)); got != "noted" {
					t.Fatalf("turn %d: %q", n, got)
				}
			}
			until(t, "a try", func() bool { return tried.Load() > 0 })
			if got := h.summaryShown(); got != "" {
				t.Errorf("a summary is shown: %q", got)
			}
			if n := len(h.history(room)); n != 160 {
				t.Errorf("the archive holds %d messages of 160", n)
			}
		})
	}
}
