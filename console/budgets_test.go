package console_test

import (
	"strings"
	"testing"

	"parley/console"
	"parley/conversation/budgets"
)

func TestOverviewShowsWhoHasUsedMostOfTheBudgets(t *testing.T) {
	t.Parallel()
	var caps *budgets.Budgets
	d := newConsoleHarness(t, func(deps *console.Deps) {
		var err error
		if caps, err = budgets.Open(t.Context(), deps.Store, budgets.Config{PersonTokens: 1000, TotalCost: 10}); err != nil {
			t.Fatal(err)
		}
		deps.Caps, deps.Currency = caps, "EUR"
	})
	r, err := caps.Reserve(t.Context(), budgets.Call{Person: "telegram:42"})
	d.must(err)
	_, err = caps.End(t.Context(), r, budgets.Amount{Tokens: 900, Cost: budgets.Money(2.5)})
	d.must(err)
	page := d.browser.Page("/console/")
	for _, want := range []string{"telegram:42", "900 of 1,000 tokens", `<span class="chip bad">90 %</span>`, "2.50 of 10.00 EUR"} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview does not show %q", want)
		}
	}
}
