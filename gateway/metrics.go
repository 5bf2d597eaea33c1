package gateway

import (
	"errors"
	"maps"
	"slices"

	"parley/llm"
	"parley/metrics"
)

// expected returns what is known at the start to be counted.
func (g *Gateway) expected() metrics.Expected {
	return metrics.Expected{
		Channels: slices.Sorted(maps.Keys(g.channels)),
		Models:   append([]string{g.choice.Model}, g.cfg.LLM.FallbackModels...),
		Tools:    g.tools,
	}
}

// attempted returns a function that counts attempts of model calls.
func attempted(m *metrics.Metrics) func(llm.Attempt) {
	return func(a llm.Attempt) {
		m.Attempted(metrics.ModelCall{
			Model: a.Model, Outcome: modelOutcome(a.Err), Took: a.Took, FirstByte: a.FirstByte,
			Prompt: a.Usage.Prompt, Cached: a.Usage.Cached, Completion: a.Usage.Completion,
		})
	}
}

// modelOutcome returns how an attempt of a model call ended, as a label.
func modelOutcome(err error) string {
	if err == nil {
		return "done"
	}
	var failed *llm.Error
	if !errors.As(err, &failed) {
		return "ended" // by /stop, or the end of the gateway
	}
	switch failed.Kind {
	case llm.KindRejected:
		return "rejected"
	case llm.KindAuth:
		return "auth"
	case llm.KindContextSize:
		return "context_size"
	}
	return "temporary"
}
