package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"

	"parley/conversation/bots"
	"parley/llm"
	"parley/metrics"
)

// expected returns the labels that are known at the start, so that their counters begin at 0.
func (g *Gateway) expected() metrics.Expected {
	var failures []string
	for _, kind := range llm.Kinds() {
		failures = append(failures, string(kind))
	}
	models := append([]string{g.choice.Model}, g.cfg.LLM.FallbackModels...)
	models = append(models, slices.Sorted(maps.Keys(g.cfg.Models))...)
	if transcription := g.cfg.Transcription.Model; transcription != "" {
		models = append(models, transcription)
	}
	return metrics.Expected{
		Channels: slices.Sorted(maps.Keys(g.channels)),
		Models:   models,
		Tools:    g.tools,
		Failures: failures,
	}
}

// readyInFigures returns whether the gateway is ready, and which channels serve.
func (g *Gateway) readyInFigures(ctx context.Context) (ready bool, channelsUp map[string]bool) {
	ready, is := g.ready(ctx)
	channelsUp = map[string]bool{}
	for name, c := range is.(parts).Channels {
		channelsUp[name] = c.State == bots.Serving
	}
	return ready, channelsUp
}

// queuesInFigures returns the queues, with an empty one for each channel in which nothing waits.
func (g *Gateway) queuesInFigures(ctx context.Context) ([]bots.Queue, error) {
	list, err := bots.New(g.store).Queues(ctx)
	for _, name := range g.names() {
		if !slices.ContainsFunc(list, func(q bots.Queue) bool { return q.Channel == name }) {
			list = append(list, bots.Queue{Channel: name})
		}
	}
	return list, err
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
	var untranscribed *llm.TranscriptionError
	switch {
	case errors.As(err, &untranscribed) && untranscribed.Refused:
		return "rejected"
	case errors.As(err, &untranscribed):
		return "temporary"
	case !errors.As(err, &failed):
		return "ended" // by /stop, or the end of the gateway
	}
	return string(failed.Kind)
}
