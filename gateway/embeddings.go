package gateway

import (
	"context"
	"log/slog"

	"parley/conversation/approvals"
	"parley/conversation/catalog"
	"parley/conversation/usage"
	"parley/embedding"
	"parley/llm"
	"parley/metrics"
)

// addEmbeddings makes searches use vectors as well as words, if the configuration names a model.
func (g *Gateway) addEmbeddings(getenv func(string) string) {
	cfg := g.cfg.Embeddings
	if cfg.Model == "" {
		return
	}
	model := llm.NewEmbedder(cfg, getenv)
	g.vectors = embedding.New(g.store, embedding.Config{
		Model: model, Name: cfg.Model, Dimensions: cfg.Dimensions, Price: cfg.Price, QueryTimeout: cfg.QueryTimeout,
		Log: g.log.With("embeddings", slog.StringValue(model.Host())), Called: func(c embedding.Call) {
			g.metrics.Embedded(metrics.EmbeddingCall{Query: c.Query, Failed: c.Err != nil, Tokens: c.Tokens, Took: c.Took})
		},
	})
	g.store.SetEmbedder(g.vectors.EmbedQuery)
}

// metricsDeps returns what the metrics depend on.
func (g *Gateway) metricsDeps() metrics.Deps {
	parts := metrics.Deps{
		Version: g.version, Now: g.store.Now, Ready: g.readyInFigures, Queues: g.queuesInFigures, Sessions: catalog.New(g.store).CountSessions,
		AtWork: func() int64 { return g.router.AtWork() },
		Asked: func(ctx context.Context) (int64, error) {
			open, err := approvals.New(g.store).Open(ctx, "")
			return int64(len(open)), err
		},
		Deferred: g.countDeferred,
		ModelsUp: func() map[string]bool {
			up := map[string]bool{}
			for _, h := range g.modelHealth() {
				up[h.Model] = h.State == llm.StateUp
			}
			return up
		},
	}
	if g.vectors != nil {
		parts.Embeddings = usage.New(g.store).AllEmbeddings
		parts.VectorsLeft = func(ctx context.Context) (int64, error) {
			s, err := g.vectors.Status(ctx)
			return s.Total - s.Done, err
		}
	}
	return parts
}
