package llm

import "regexp"

// Prices are the prices of models by name.
type Prices map[string]Price

// Price is the price of a model per million tokens, in Config.Currency.
type Price struct {
	Input  float64 `toml:"input" min:"0"`
	Output float64 `toml:"output" min:"0"`

	// Cached is the price of input that the server took from its cache. Default: that of
	// Input.
	Cached *float64 `toml:"cached" min:"0"`
}

// Cost returns what tokens of a model cost; cached are those of prompt that came from a
// cache. known is false for a model that has no price.
func (p Prices) Cost(model string, prompt, cached, completion int64) (cost float64, known bool) {
	price, known := p[model]
	if !known {
		price, known = p[snapshot.ReplaceAllString(model, "")]
	}
	const million = 1e6
	fromCache := price.Input
	if price.Cached != nil {
		fromCache = *price.Cached
	}
	return (float64(prompt-cached)*price.Input + float64(cached)*fromCache + float64(completion)*price.Output) / million, known
}

// snapshot matches the date that servers append to the name of the model that has
// answered: gpt-4o-2024-08-06, claude-sonnet-4-5-20250929.
var snapshot = regexp.MustCompile(`[-@](\d{4}-\d{2}-\d{2}|\d{8})$`)
