package usage

import (
	"context"
	"math"

	"parley/conversation/internal/db"
)

// Embeddings are sums over requests to an embedding model, for messages and for queries.
type Embeddings struct {
	Model    string
	Requests int64
	Failed   int64   // the requests that failed
	Tokens   int64   // as the server counted them
	Cost     float64 // by the prices at the time of each request, in the currency of the prices
}

// Add adds the sums o to e.
func (e *Embeddings) Add(o Embeddings) {
	e.Requests += o.Requests
	e.Failed += o.Failed
	e.Tokens += o.Tokens
	e.Cost += o.Cost
}

// billionths is the number of units in which a cost of 1 is stored.
const billionths = 1e9

// AddEmbeddings adds requests to the sums of the present hour.
func (u *Usage) AddEmbeddings(ctx context.Context, made Embeddings) error {
	cost := int64(math.Round(min(made.Cost*billionths, math.MaxInt64/4)))
	return u.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO embedding_totals (hour, model, requests, failed, tokens, cost) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (hour, model) DO UPDATE SET requests = embedding_totals.requests + excluded.requests, failed = embedding_totals.failed + excluded.failed,
				tokens = embedding_totals.tokens + excluded.tokens, cost = embedding_totals.cost + excluded.cost`,
			hourOf(u.store.Now()), db.Text(made.Model), made.Requests, made.Failed, made.Tokens, cost)
		return err
	})
}

// AllEmbeddings returns sums over all requests that were ever added, by model, those with the most requests first.
func (u *Usage) AllEmbeddings(ctx context.Context) ([]Embeddings, error) {
	list, err := u.embeddings(ctx, period{first: firstHour, end: lastHour + 1})
	return list, db.Explain(err)
}

func (u *Usage) embeddings(ctx context.Context, p period) (list []Embeddings, err error) {
	rows, err := u.db.QueryContext(ctx, `
		SELECT model, sum(requests), sum(failed), sum(tokens), sum(cost) FROM embedding_totals WHERE hour >= ? AND hour < ?
		GROUP BY model ORDER BY sum(requests) DESC, model`, p.first, p.end)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e Embeddings
		var cost int64
		if err := rows.Scan(&e.Model, &e.Requests, &e.Failed, &e.Tokens, &cost); err != nil {
			return nil, err
		}
		e.Cost = float64(cost) / billionths
		list = append(list, e)
	}
	return list, rows.Err()
}
