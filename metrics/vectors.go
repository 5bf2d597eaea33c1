package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// EmbeddingCall is one request for vectors.
type EmbeddingCall struct {
	Query  bool // for a search, else for messages
	Failed bool
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
	m.collectors.embeddingSeconds.WithLabelValues(kind).Observe(call.Took.Seconds())
}

// vectors reports how many messages have no vector yet, which it reads from the store with each scrape.
type vectors struct {
	read func(context.Context) (int64, error)
	left *prometheus.Desc
}

func newVectors(read func(context.Context) (int64, error)) vectors {
	return vectors{read, prometheus.NewDesc("parley_embeddings_left", "Messages that have no vector yet.", nil, nil)}
}

func (v vectors) Describe(to chan<- *prometheus.Desc) { to <- v.left }

func (v vectors) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	left, err := v.read(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(v.left, err)
		return
	}
	to <- prometheus.MustNewConstMetric(v.left, prometheus.GaugeValue, float64(left))
}
