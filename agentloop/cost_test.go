package agentloop

import (
	"math"
	"sync/atomic"
	"testing"

	"parley/conversation/usage"
	"parley/llm"
	"parley/llm/llmtest"
)

// A change of prices does not change the cost of earlier calls: in runs, sums and background calls. Calls that had no price count by
// the present prices.
func TestCostsStayWhatTheyWereWhenPricesChange(t *testing.T) {
	t.Parallel()
	var price atomic.Int64 // of a token; negative: the model has none
	prices := func(_ string, prompt, _, completion int64) (float64, bool) {
		return float64((prompt + completion) * price.Load()), price.Load() >= 0
	}
	h := newHarness(t, func(d *Deps) { d.Budgets.Cost, d.Config.Titles = prices, true })
	h.server.Reply(func(c llmtest.Call) llmtest.Answer {
		switch {
		case c.Messages[0].Content == titlePrompt:
			return answerWithTokens("The time", 5)
		case c.Messages[len(c.Messages)-1].Role == "user":
			return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "c", Name: "current_time", Arguments: "{}"}}, Usage: &llm.Usage{Prompt: 90, Completion: 10}}
		}
		return answerWithTokens("Half past nine.", 200)
	})
	price.Store(3)
	h.ask(room, "What time is it?")
	until(t, "the title", func() bool { return h.title() == "The time" })
	u := usage.New(h.store)
	costs := func() map[string]float64 {
		c, err := h.store.Active(t.Context(), room)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := u.Trace(t.Context(), usage.TraceQuery{Conversation: c.ID})
		if err != nil || len(trace.Models) != 1 {
			t.Fatalf("%+v, %v", trace.Models, err)
		}
		all := map[string]float64{}
		all["trace"], _ = trace.Models[0].Cost.Of("fake", prices)
		all["first run"], _ = usage.CostOf(trace.Runs[0]).Of("fake", prices)
		for _, by := range []usage.Group{usage.ByDay, usage.ByPerson, usage.BySession, usage.ByAgent, usage.ByModel} {
			parts, err := u.By(t.Context(), by, h.store.Now())
			if by == usage.BySession || by == usage.ByAgent {
				parts, err = u.By(t.Context(), by, c.CreatedAt)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range parts {
				cost, _ := p.Cost.Of(p.Model, prices)
				all[string(by)] += cost
			}
		}
		return all
	}
	until(t, "the title is in the sums", func() bool { return costs()["day"] == 915 })
	price.Store(7)
	for of, cost := range costs() {
		if want := map[bool]float64{true: 900, false: 915}[of == "first run"]; math.Abs(cost-want) > 1e-6 {
			t.Errorf("%s has cost %g, want %g", of, cost, want)
		}
	}
	price.Store(-1)
	h.ask(room, "And now?")
	if _, known := usageOfRoom(t, h).Of("fake", prices); known {
		t.Error("the cost of a call without a price is known")
	}
	price.Store(1)
	if cost, known := usageOfRoom(t, h).Of("fake", prices); !known || cost != 915+300 {
		t.Errorf("with the second run at the price of today: %g, %t", cost, known)
	}
}

// usageOfRoom returns what the calls in the room have cost, all of one model.
func usageOfRoom(t *testing.T, h *harness) usage.Cost {
	t.Helper()
	c, err := h.store.Active(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	list, err := usage.New(h.store).OfSession(t.Context(), room, c.CreatedAt)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	return list[0].Cost
}

// A server may answer by another name than the one that the configuration, and its price, has.
func TestPriceIsThatOfTheModelThatWasAskedFor(t *testing.T) {
	t.Parallel()
	b := Budgets{Cost: func(model string, prompt, _, _ int64) (float64, bool) { return float64(prompt), model == "priced" }}
	for _, a := range []llm.Attempt{{Model: "priced", Asked: "alias"}, {Model: "answered-as", Asked: "priced"}} {
		a.Usage.Prompt = 2
		if cost := b.costOf(a); cost == nil || *cost != 2e9 {
			t.Errorf("%s, asked for as %s, costs %v", a.Model, a.Asked, cost)
		}
	}
	if cost := b.costOf(llm.Attempt{Model: "other", Asked: "another"}); cost != nil {
		t.Errorf("a model without a price costs %d", *cost)
	}
}
