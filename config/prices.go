package config

import (
	"fmt"
	"maps"
	"slices"
)

// UnpricedModel returns the problem of a model that has no price while costs are capped, as it is known without the line of the
// model's name. ok is false if there is none.
func (c Config) UnpricedModel(model string, origins Origins) (p Problem, ok bool) {
	limit := c.Budget.CostCap()
	if _, priced := c.Prices().Cost(model, 0, 0, 0); priced || limit == "" {
		return p, false
	}
	p = Problem{
		File: origins["budget."+limit].File, Line: origins["budget."+limit].Line, Key: "budget." + limit,
		Found:   fmt.Sprintf("a cap on costs, but no price for the model %q", clip(model)),
		Allowed: fmt.Sprintf("a cap on costs where each model has a price: %q = { input = 0.25, output = 2.0 } in llm.prices, or 0 for one that costs nothing", clip(model)),
	}
	if near := nearest(model, slices.Sorted(maps.Keys(c.LLM.Prices))); near != "" {
		p.Found += fmt.Sprintf(" (is it %q of llm.prices?)", clip(near))
	}
	return p, true
}

// unpriced reports each configured model that has no price while costs are capped.
func (d *decoder) unpriced(c Config, root *node) {
	check := func(model string, path ...string) {
		if p, is := c.UnpricedModel(model, d.origins); is && model != "" && model != "offline" {
			p.Line, p.Key = root.at(path...).line, ""
			for _, name := range path {
				p.Key = join(p.Key, name)
			}
			d.problem(p)
		}
	}
	check(c.LLM.Model, "llm", "model")
	for _, name := range c.LLM.FallbackModels {
		if _, is := c.Models[name]; !is {
			check(name, "llm", "fallback_models")
		}
	}
	for _, section := range slices.Sorted(maps.Keys(c.Models)) {
		check(section, "models", section)
		for _, name := range c.Models[section].FallbackModels {
			if _, is := c.Models[name]; !is {
				check(name, "models", section, "fallback_models")
			}
		}
	}
}
