package agentloop

import (
	"strings"
	"testing"

	"parley/agentloop/window/windowtest"
	"parley/llm"
	"parley/llm/llmtest"
)

// A server that counts 1.5 times as many tokens as the gateway is sent less, so that
// its own count stays within the budget.
func TestWindowFollowsTheServersCount(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("fake")
	count := func(c llmtest.Call) int { return windowtest.Tokens(counter, c.Messages) * 3 / 2 }
	h := newHarness(t, func(p *Deps) { p.Budget = 2000 })
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
