package metrics

import (
	"context"
	"time"

	"parley/conversation/usage"

	"github.com/prometheus/client_golang/prometheus"
)

// EmbeddingCall is one request for vectors.
type EmbeddingCall struct {
	Query  bool // the call was for a search; else for messages
	Failed bool
	Tokens int // that the server has counted
	Took   time.Duration
}

// Embedded counts a request for vectors.
func (m *Metrics) Embedded(call EmbeddingCall) {
	kind, outcome := "messages", "done"
	if call.Query {
		kind = "query"
	}
	if call.Failed {
		outcome = "failed"
	}
	m.collectors.embeddings.WithLabelValues(kind, outcome).Inc()
	m.collectors.embeddingTokens.WithLabelValues(kind).Add(float64(call.Tokens))
	m.collectors.embeddingSeconds.WithLabelValues(kind).Observe(call.Took.Seconds())
}

// embeddingsUsed are the requests for vectors that the store has counted: unlike the counters
// of this process, also those of others and of earlier starts.
type embeddingsUsed struct {
	read                   func(context.Context) ([]usage.Embeddings, error)
	requests, tokens, cost *prometheus.Desc
}

func newEmbeddingsUsed(read func(context.Context) ([]usage.Embeddings, error)) embeddingsUsed {
	counter := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"model"}, nil)
	}
	return embeddingsUsed{
		read:     read,
		requests: counter("parley_embeddings_stored_requests_total", "Requests for vectors that the database has counted."),
		tokens:   counter("parley_embeddings_stored_tokens_total", "Their tokens, as the embeddings server counts them."),
		cost:     counter("parley_embeddings_stored_cost_total", "Their cost, in the currency of the prices."),
	}
}

func (e embeddingsUsed) Describe(to chan<- *prometheus.Desc) {
	to <- e.requests
	to <- e.tokens
	to <- e.cost
}

func (e embeddingsUsed) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	list, err := e.read(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(e.requests, err)
		return
	}
	for _, used := range list {
		to <- prometheus.MustNewConstMetric(e.requests, prometheus.CounterValue, float64(used.Requests), used.Model)
		to <- prometheus.MustNewConstMetric(e.tokens, prometheus.CounterValue, float64(used.Tokens), used.Model)
		to <- prometheus.MustNewConstMetric(e.cost, prometheus.CounterValue, used.Cost, used.Model)
	}
}

// stored is a gauge that is read from the store with each scrape.
type stored struct {
	read  func(context.Context) (int64, error)
	value *prometheus.Desc
}

func newStored(name, help string, read func(context.Context) (int64, error)) stored {
	return stored{read, prometheus.NewDesc(name, help, nil, nil)}
}

func (s stored) Describe(to chan<- *prometheus.Desc) { to <- s.value }

func (s stored) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	value, err := s.read(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(s.value, err)
		return
	}
	to <- prometheus.MustNewConstMetric(s.value, prometheus.GaugeValue, float64(value))
}
