// Package metrics counts what the gateway does, for Prometheus:
// https://prometheus.io/docs/concepts/metric_types/
package metrics

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley/activity"
	"parley/conversation"
	"parley/conversation/bots"
)

// Parts is what Metrics need.
type Parts struct {
	Version string                                          // of the gateway
	Queues  func(ctx context.Context) ([]bots.Queue, error) // read with each scrape
}

// Metrics counts what the gateway does, from the first scrape on: without a
// Prometheus there are no collectors, and each hook costs one load of a pointer.
// The hooks never block, and may be called from any goroutine.
type Metrics struct {
	parts   Parts
	handler func() http.Handler
	made    atomic.Pointer[collectors] // nil before the first scrape
}

// New returns metrics that count nothing before the first scrape.
func New(parts Parts) *Metrics {
	m := &Metrics{parts: parts}
	m.handler = sync.OnceValue(m.begin)
	return m
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler().ServeHTTP(w, r) }

// begin makes the collectors, which count from now on.
func (m *Metrics) begin() http.Handler {
	c, registry := newCollectors(m.parts)
	m.made.Store(c)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // queues that can't be read hide nothing else
		Registry:      registry,
	})
}

// Accepted counts inbound of a channel.
func (m *Metrics) Accepted(channel string, n int) {
	if c := m.made.Load(); c != nil {
		c.inbound.WithLabelValues(channel).Add(float64(n))
	}
}

// Committed counts a run, and its tool calls.
func (m *Metrics) Committed(run conversation.Run) {
	c := m.made.Load()
	if c == nil {
		return
	}
	c.runs.WithLabelValues(string(run.Kind), string(run.Status)).Inc()
	c.runSeconds.WithLabelValues(string(run.Kind)).Observe(time.Since(run.StartedAt).Seconds())
	for _, step := range run.Steps {
		if step.Kind == conversation.StepTool {
			c.toolCalls.WithLabelValues(outcome(step.Error)).Inc()
		}
	}
}

func outcome(failure string) string {
	if failure != "" {
		return "failed"
	}
	return "done"
}

// ModelCall is one attempt of a model call.
type ModelCall struct {
	Model              string
	Outcome            string        // "done", or the kind of the error
	Took, FirstByte    time.Duration // 0: no byte came
	Prompt, Completion int           // tokens
}

// Attempted counts an attempt of a model call.
func (m *Metrics) Attempted(call ModelCall) {
	c := m.made.Load()
	if c == nil {
		return
	}
	model := c.models.label(call.Model)
	c.modelCalls.WithLabelValues(model, call.Outcome).Inc()
	c.modelSeconds.WithLabelValues(model).Observe(call.Took.Seconds())
	if call.FirstByte > 0 {
		c.firstByteSeconds.WithLabelValues(model).Observe(call.FirstByte.Seconds())
	}
	c.tokens.WithLabelValues(model, "prompt").Add(float64(call.Prompt))
	c.tokens.WithLabelValues(model, "completion").Add(float64(call.Completion))
}

// Delivered counts the outcome of a delivery attempt.
func (m *Metrics) Delivered(o activity.Outcome) {
	c := m.made.Load()
	if c == nil {
		return
	}
	c.deliveries.WithLabelValues(o.Channel, string(o.Kind)).Inc()
	if o.Kind == activity.Sent {
		c.deliverySeconds.WithLabelValues(o.Channel).Observe(o.After.Seconds())
	}
}

// Answered counts an HTTP request by the pattern of its route, "" for none.
func (m *Metrics) Answered(route string, status int, took time.Duration) {
	if c := m.made.Load(); c != nil {
		c.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
		c.requestSeconds.WithLabelValues(route).Observe(took.Seconds())
	}
}
