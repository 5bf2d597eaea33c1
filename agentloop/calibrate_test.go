package agentloop

import (
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

// A server that counts half as much again as the gateway does is sent less, so
// that its own count stays within the budget.
func TestWindowFollowsTheServersCount(t *testing.T) {
	counter := llm.NewCounter("fake")
	count := func(c llmtest.Call) int { return tokensOf(counter, c.Messages) * 3 / 2 }
	h := newHouse(t, func(p *Parts) { p.Budget = 2000 })
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "noted", Usage: &llm.Usage{Prompt: count(c), Completion: 1}}
	})
	for range 60 {
		h.ask(room, strings.Repeat("some words to remember ", 10))
	}
	calls := h.server.Calls()
	if n := count(calls[len(calls)-1]); n > 2000 || n < 1500 {
		t.Errorf("the server counts %d tokens with a budget of 2000", n)
	}
}

// Reports that can't be true neither starve the window nor overfill it.
func TestStrangeReportsChangeLittle(t *testing.T) {
	for name, reported := range map[string]int{"none": 0, "negative": -5, "of the cache": 3, "huge": 1 << 40} {
		var c calibration
		for range 50 {
			c.learn("m", 1000, reported)
		}
		if got := c.budget(1000); got > 1000 || got < 500 {
			t.Errorf("%s: of a budget of 1000 there are %d left", name, got)
		}
	}
	var c calibration
	c.learn("m", 10, 1000)
	if got := c.budget(1000); got != 1000 {
		t.Errorf("a short list has changed the budget to %d", got)
	}
}
