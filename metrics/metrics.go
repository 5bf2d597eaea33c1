// Package metrics counts what the gateway does, for Prometheus:
// https://prometheus.io/docs/concepts/metric_types/
package metrics

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley/activity"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/budgets"
	"parley/conversation/steps"
	"parley/conversation/usage"
)

// Deps are the dependencies of Metrics.
type Deps struct {
	Version string           // version of the gateway
	Now     func() time.Time // the clock of the times that runs and queues have; nil: time.Now

	// The functions are called with each scrape. Each may be nil: its figures are missing.
	Ready    func(ctx context.Context) (ready bool, channelsUp map[string]bool) // as /readyz answers, and which channels serve
	Queues   func(ctx context.Context) ([]bots.Queue, error)
	Sessions func(ctx context.Context) (int64, error) // number of stored sessions
	AtWork   func() int64                             // number of sessions with a loop
	ModelsUp func() map[string]bool                   // by the name of a model: whether it is called

	Deferred func(ctx context.Context) (messages, sessions int64, err error) // what waits for a model that can't be called

	Asked       func(ctx context.Context) (int64, error) // number of tool calls that wait for an answer
	VectorsLeft func(ctx context.Context) (int64, error) // number of messages that have no vector yet

	Embeddings func(ctx context.Context) ([]usage.Embeddings, error) // all requests for vectors that are stored, by model
}

// Metrics counts what the gateway does, from New on. The hooks never block, and may be
// called from any goroutine.
type Metrics struct {
	collectors *collectors
	handler    http.Handler
	now        func() time.Time
}

// New returns metrics that count from now on.
func New(deps Deps) *Metrics {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	c, registry := newCollectors(deps)
	return &Metrics{collectors: c, now: deps.Now, handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // queues that can't be read hide nothing else
		Registry:      registry,
	})}
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Expected lists the labels that are known at the start.
type Expected struct {
	Channels []string
	Models   []string
	Tools    []string // names of all tools that the model may call
	Failures []string // kinds of failed model calls
}

// Expect creates the counters of expected labels with 0, so that a rate is right from
// the first event on. Tools that are not named count as "other".
func (m *Metrics) Expect(e Expected) {
	c := m.collectors
	for _, channel := range e.Channels {
		c.inbound.WithLabelValues(channel)
		for _, kind := range []activity.OutcomeKind{activity.Sent, activity.Retried, activity.Failed} {
			c.deliveries.WithLabelValues(channel, string(kind))
		}
	}
	for _, model := range e.Models {
		model = c.models.label(model)
		for _, outcome := range append([]string{"done", "ended"}, e.Failures...) {
			c.modelCalls.WithLabelValues(model, outcome)
		}
		c.tokens.WithLabelValues(model, "prompt")
		c.tokens.WithLabelValues(model, "completion")
	}
	m.ExpectTools(append(e.Tools, otherTool))
}

// ExpectTools creates the counters of tools.
func (m *Metrics) ExpectTools(names []string) {
	c := m.collectors
	for _, tool := range c.tools.expect(names) {
		c.toolCalls.WithLabelValues(tool, "done")
		c.toolCalls.WithLabelValues(tool, "failed")
	}
}

// ServerCall is a call of a tool of a server.
type ServerCall struct {
	Server string
	Failed bool
	Took   time.Duration
}

// CalledServer counts a call of a tool of a server.
func (m *Metrics) CalledServer(call ServerCall) {
	how := "done"
	if call.Failed {
		how = "failed"
	}
	m.collectors.serverCalls.WithLabelValues(call.Server, how).Inc()
	m.collectors.serverSeconds.WithLabelValues(call.Server).Observe(call.Took.Seconds())
}

// Accepted counts inbound of a channel.
func (m *Metrics) Accepted(channel string, n int) {
	m.collectors.inbound.WithLabelValues(channel).Add(float64(n))
}

// CallRefused counts a model call that was not made, since a cap was reached.
func (m *Metrics) CallRefused(scope budgets.Scope, unit budgets.Unit) {
	m.collectors.refused.WithLabelValues(string(scope), string(unit)).Inc()
}

// Committed counts a run, its tool calls, and the conversation that it follows where
// that is over.
func (m *Metrics) Committed(run conversation.Run) {
	c := m.collectors
	switch {
	case run.Conversation.Idle > 0:
		c.expirations.WithLabelValues(expiredByRest).Inc()
	case run.Conversation.Filled > 0:
		c.expirations.WithLabelValues(expiredByLength).Inc()
	}
	c.runs.WithLabelValues(string(run.Kind), string(run.Status)).Inc()
	c.runSeconds.WithLabelValues(string(run.Kind)).Observe((m.now().Sub(run.StartedAt) - steps.Waited(run.Steps)).Seconds())
	for _, step := range run.Steps {
		switch step.Kind {
		case steps.Tool:
			c.toolCalls.WithLabelValues(c.tools.label(step.Name), outcome(step.Error)).Inc()
		case steps.Approval:
			c.approvals.WithLabelValues(step.Answer).Inc()
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
	Took, FirstByte    time.Duration // FirstByte is 0 if no byte came
	Prompt, Completion int           // tokens
	Cached             int           // tokens of Prompt that came from the server's cache
}

// Attempted counts an attempt of a model call.
func (m *Metrics) Attempted(call ModelCall) {
	c := m.collectors
	model := c.models.label(call.Model)
	c.modelCalls.WithLabelValues(model, call.Outcome).Inc()
	c.modelSeconds.WithLabelValues(model).Observe(call.Took.Seconds())
	if call.FirstByte > 0 {
		c.firstByteSeconds.WithLabelValues(model).Observe(call.FirstByte.Seconds())
	}
	c.tokens.WithLabelValues(model, "prompt").Add(float64(call.Prompt))
	c.cachedTokens.WithLabelValues(model).Add(float64(call.Cached))
	c.tokens.WithLabelValues(model, "completion").Add(float64(call.Completion))
}

// Delivered counts the outcome of a delivery attempt.
func (m *Metrics) Delivered(o activity.Outcome) {
	c := m.collectors
	c.deliveries.WithLabelValues(o.Channel, string(o.Kind)).Inc()
	if o.Kind == activity.Sent {
		c.deliverySeconds.WithLabelValues(o.Channel).Observe(o.After.Seconds())
	}
}

// Answered counts an HTTP request by the pattern of its route, "" for none.
func (m *Metrics) Answered(route string, status int, took time.Duration) {
	m.collectors.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.collectors.requestSeconds.WithLabelValues(route).Observe(took.Seconds())
}
