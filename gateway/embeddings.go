package gateway

import (
	"context"
	"log/slog"

	"parley/conversation/bots"
	"parley/embedding"
	"parley/llm"
	"parley/metrics"
)

// addEmbeddings has messages found by their vectors, too, if the configuration names a model.
func (g *Gateway) addEmbeddings(getenv func(string) string) {
	cfg := g.cfg.Embeddings
	if cfg.Model == "" {
		return
	}
	model := llm.NewEmbedder(cfg, getenv)
	g.vectors = embedding.New(g.store, embedding.Config{
		Model: model, Name: cfg.Model, Dimensions: cfg.Dimensions, QueryTimeout: cfg.QueryTimeout,
		Log: g.log.With("embeddings", slog.StringValue(model.Host())), Called: func(c embedding.Call) {
			g.metrics.Embedded(metrics.EmbeddingCall{Query: c.Query, Failed: c.Err != nil, Took: c.Took})
		},
	})
	g.store.SetEmbedder(g.vectors)
}

// metricsDeps returns what the metrics depend on.
func (g *Gateway) metricsDeps() metrics.Deps {
	parts := metrics.Deps{
		Version: g.version, Queues: bots.New(g.store).Queues, Sessions: g.store.CountSessions,
		AtWork: func() int64 { return g.router.AtWork() },
	}
	if g.vectors != nil {
		parts.VectorsLeft = func(ctx context.Context) (int64, error) {
			s, err := g.vectors.Status(ctx)
			return s.Total - s.Done, err
		}
	}
	return parts
}
