package metrics

import (
	"context"
	"runtime"

	"parley/conversation"
	"parley/conversation/approvals"

	"github.com/prometheus/client_golang/prometheus"
	process "github.com/prometheus/client_golang/prometheus/collectors"
)

// collectors count events as they happen.
type collectors struct {
	inbound          *prometheus.CounterVec
	runs             *prometheus.CounterVec
	runSeconds       *prometheus.HistogramVec
	toolCalls        *prometheus.CounterVec
	approvals        *prometheus.CounterVec
	refused          *prometheus.CounterVec
	serverCalls      *prometheus.CounterVec
	serverSeconds    *prometheus.HistogramVec
	modelCalls       *prometheus.CounterVec
	modelSeconds     *prometheus.HistogramVec
	firstByteSeconds *prometheus.HistogramVec
	tokens           *prometheus.CounterVec
	cachedTokens     *prometheus.CounterVec
	deliveries       *prometheus.CounterVec
	deliverySeconds  *prometheus.HistogramVec
	requests         *prometheus.CounterVec
	requestSeconds   *prometheus.HistogramVec
	embeddings       *prometheus.CounterVec
	embeddingTokens  *prometheus.CounterVec
	embeddingSeconds *prometheus.HistogramVec

	expirations *prometheus.CounterVec

	models models
	tools  tools
}

// Why a conversation was followed by another one, as labels.
const (
	expiredByRest   = "rest"
	expiredByLength = "messages"
)

// newCollectors returns collectors in a registry of their own.
func newCollectors(deps Deps) (*collectors, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		registry.MustRegister(h)
		return h
	}
	// Bounds in seconds: of a model's time, of a platform's, of this server's.
	working := []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320}
	sending := []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600}
	answering := []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10, 60}
	registerStates(registry, deps)
	c := &collectors{
		inbound:          counter("parley_inbound_total", "Messages taken from a channel and stored.", "channel"),
		runs:             counter("parley_runs_total", "Runs and commands that ended.", "kind", "status"),
		runSeconds:       histogram("parley_run_seconds", "From the begin of a run to its commit.", working, "kind"),
		toolCalls:        counter("parley_tool_calls_total", "Tool calls that the model asked for.", "tool", "outcome"),
		refused:          counter("parley_budget_refused_total", "Model calls that were not made, since a cap was reached.", "scope", "unit"),
		approvals:        counter("parley_approvals_total", "Tool calls that somebody was asked about, by what became of it.", "answer"),
		serverCalls:      counter("parley_mcp_calls_total", "Calls of tools of MCP servers.", "server", "outcome"),
		serverSeconds:    histogram("parley_mcp_call_seconds", "The time of a call of a tool of an MCP server.", sending, "server"),
		modelCalls:       counter("parley_model_calls_total", "Tries of model calls: done, or the kind of the error.", "model", "outcome"),
		modelSeconds:     histogram("parley_model_call_seconds", "The time of one try of a model call.", working, "model"),
		firstByteSeconds: histogram("parley_model_first_byte_seconds", "From a model call to the first piece of its answer.", working, "model"),
		tokens:           counter("parley_tokens_total", "Tokens as the model's server counts them: prompt or completion.", "model", "direction"),
		cachedTokens:     counter("parley_cached_tokens_total", "Tokens of prompts that the model's server took from its cache.", "model"),
		deliveries:       counter("parley_deliveries_total", "Replies sent or failed for good, and tries that are made again.", "channel", "outcome"),
		deliverySeconds:  histogram("parley_delivery_seconds", "From a run's commit until the platform has taken its reply.", sending, "channel"),
		requests:         counter("parley_http_requests_total", "HTTP requests by route, empty where there is none.", "route", "status"),
		requestSeconds:   histogram("parley_http_request_seconds", "The time of an HTTP request; of a stream, as long as it was open.", answering, "route"),
		embeddings:       counter("parley_embedding_calls_total", "Requests for vectors: of messages, or of a query.", "kind", "outcome"),
		embeddingTokens:  counter("parley_embedding_tokens_total", "Tokens of requests for vectors, as the embeddings server counts them.", "kind"),
		embeddingSeconds: histogram("parley_embedding_call_seconds", "The time of a request for vectors.", sending, "kind"),
		expirations:      counter("parley_expirations_total", "Conversations that were over, so that a message began another: by rest, or by their number of messages.", "reason"),
	}
	c.beginWithZero()
	return c, registry
}

// beginWithZero has counters whose labels are known shown before anything has happened.
func (c *collectors) beginWithZero() {
	for _, kind := range []conversation.Kind{conversation.KindAgent, conversation.KindCommand} {
		for _, status := range []conversation.Status{conversation.StatusDone, conversation.StatusFailed, conversation.StatusStopped} {
			c.runs.WithLabelValues(string(kind), string(status))
		}
	}
	for _, answer := range []approvals.State{approvals.Allowed, approvals.Denied, approvals.Expired, approvals.Cancelled} {
		c.approvals.WithLabelValues(string(answer))
	}
	c.expirations.WithLabelValues(expiredByRest)
	c.expirations.WithLabelValues(expiredByLength)
}

// registerStates registers what is read at each scrape.
func registerStates(registry *prometheus.Registry, deps Deps) {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "parley_build_info", Help: "The version that runs; always 1.",
		ConstLabels: prometheus.Labels{"version": deps.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	registry.MustRegister(build, process.NewGoCollector(), process.NewProcessCollector(process.ProcessCollectorOpts{}), newSessions(deps))
	if deps.Ready != nil {
		registry.MustRegister(newReadiness(deps.Ready))
	}
	if deps.Queues != nil {
		registry.MustRegister(newQueues(deps.Queues, deps.Now))
	}
	if deps.Asked != nil {
		registry.MustRegister(newStored("parley_approvals_open", "Tool calls that wait for an answer.", deps.Asked))
	}
	if deps.Deferred != nil {
		registry.MustRegister(newStored("parley_deferred_messages", "Messages that wait for a model that can't be called.", func(ctx context.Context) (int64, error) {
			messages, _, err := deps.Deferred(ctx)
			return messages, err
		}))
		registry.MustRegister(newStored("parley_deferred_sessions", "Sessions in which they wait.", func(ctx context.Context) (int64, error) {
			_, sessions, err := deps.Deferred(ctx)
			return sessions, err
		}))
	}
	if deps.ModelsUp != nil {
		registry.MustRegister(newModelsUp(deps.ModelsUp))
	}
	if deps.VectorsLeft != nil {
		registry.MustRegister(newStored("parley_embeddings_left", "Messages that have no vector yet.", deps.VectorsLeft))
	}
	if deps.Embeddings != nil {
		registry.MustRegister(newEmbeddingsUsed(deps.Embeddings))
	}
}
