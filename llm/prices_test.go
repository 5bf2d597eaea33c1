package llm_test

import (
	"testing"

	"parley/llm"
)

func TestCostIsComputedFromTokens(t *testing.T) {
	t.Parallel()
	prices := llm.Prices{"gpt-4o": {Input: 2.5, Output: 10}, "free": {}}
	for model, want := range map[string]struct {
		cost  float64
		known bool
	}{
		"gpt-4o":            {3.5, true},
		"gpt-4o-2024-08-06": {3.5, true},
		"gpt-4o-20240806":   {3.5, true},
		"gpt-4o-mini":       {0, false},
		"free":              {0, true},
		"":                  {0, false},
	} {
		if cost, known := prices.Cost(model, 1_000_000, 0, 100_000); cost != want.cost || known != want.known {
			t.Errorf("%q costs %v, known %t", model, cost, known)
		}
	}
	half := 1.25
	prices["gpt-4o"] = llm.Price{Input: 2.5, Output: 10, Cached: &half}
	if cost, _ := prices.Cost("gpt-4o", 1_000_000, 800_000, 100_000); cost != 0.5+1+1 {
		t.Errorf("with tokens from the cache it costs %v", cost)
	}
	prices["gpt-4o"] = llm.Price{Input: 2.5, Output: 10}
	if cost, _ := prices.Cost("gpt-4o", 1_000_000, 800_000, 100_000); cost != 3.5 {
		t.Errorf("without a price of its own, what came from the cache costs %v", cost)
	}
	if _, known := llm.Prices(nil).Cost("gpt-4o", 1, 0, 1); known {
		t.Error("a price is known where none is set")
	}
}
