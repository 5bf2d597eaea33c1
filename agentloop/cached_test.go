package agentloop

import (
	"testing"
	"time"

	"parley/conversation/usage"
	"parley/llm"
	"parley/llm/llmtest"
)

// The tokens that the server took from its cache are stored with each call and its run, and
// added up.
func TestCachedTokensAreStoredWithTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(
		llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "c", Name: "current_time", Arguments: "{}"}}, Usage: &llm.Usage{Prompt: 400, Completion: 7}},
		llmtest.Answer{Text: "late", Usage: &llm.Usage{Prompt: 500, Cached: 384, Completion: 5}})
	h.ask(room, "what time is it?")
	c, err := h.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := usage.New(h.store).Trace(t.Context(), usage.TraceQuery{Conversation: c.ID})
	if err != nil {
		t.Fatal(err)
	}
	run := trace.Runs[0]
	if steps := run.Steps; run.Cached != 384 || len(steps) != 3 || steps[0].Cached != 0 || steps[2].Cached != 384 {
		t.Errorf("%d of %d tokens came from the cache, by steps %+v", run.Cached, run.Prompt, steps)
	}
	if sums := trace.Models[0]; sums.Cached != 384 || sums.Prompt != 900 || sums.CachedPercent() != 43 {
		t.Errorf("the sums are %+v, %d %%", sums, sums.CachedPercent())
	}
	stats, err := usage.New(h.store).Stats(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.Hour)
	if err != nil || len(stats.Models) != 1 || stats.Models[0].Cached != 384 || stats.People[0].Cached != 384 {
		t.Errorf("the statistics are %+v, %v", stats.Models, err)
	}
}

// Each conversation has a cache key of its own.
func TestCacheKeyIsTheSameInAllCallsOfAConversation(t *testing.T) {
	t.Parallel()
	a, b := cacheKey("0190b0a0-0000-7000-8000-000000000000"), cacheKey("0190b0a0-0000-7000-8000-000000000001")
	if a == b || a != cacheKey("0190b0a0-0000-7000-8000-000000000000") || len(a) > 64 {
		t.Errorf("%q and %q", a, b)
	}
}
