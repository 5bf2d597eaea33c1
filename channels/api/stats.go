package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	stored "parley/conversation/usage"
)

func (c *Channel) statsOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "get-stats", Method: http.MethodGet, Path: prefix + "/stats", Tags: []string{tagLooking},
			Summary: "Get statistics over time",
		}, c.getStats),
	}
}

type getStats struct {
	From   time.Time `query:"from" doc:"RFC 3339; default a day before to" example:"2026-01-31T00:00:00Z"`
	To     time.Time `query:"to" doc:"RFC 3339; default now"`
	Bucket int       `query:"bucket_hours" minimum:"1" maximum:"8784" default:"1" doc:"Hours of a bucket"`

	hasFrom, hasTo bool // the year 1, which is Go's zero time, is a time like any other
}

// Resolve reads which parameters are given. huma calls it with the request.
func (in *getStats) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	in.hasFrom, in.hasTo = u.Query().Has("from"), u.Query().Has("to")
	return nil
}

// stats are sums over the runs of some time.
type stats struct {
	From    time.Time `json:"from" doc:"The beginning, at a whole hour"`
	To      time.Time `json:"to"`
	Buckets []bucket  `json:"buckets" doc:"Oldest first, including those without runs"`
	Usage   []usageOf `json:"usage" doc:"Sums by channel and model, the most runs first"`
	People  []usageOf `json:"people" doc:"Sums by channel, person and model, for whole days in UTC"`

	Embeddings []embeddingsOf `json:"embeddings" doc:"Requests for vectors, by model, the most requests first"`
}

type embeddingsOf struct {
	Model    string  `json:"model"`
	Requests int64   `json:"requests"`
	Failed   int64   `json:"failed" doc:"How many of them failed"`
	Tokens   int64   `json:"tokens" doc:"The tokens as the embeddings server counts them"`
	Cost     float64 `json:"cost,omitempty" doc:"The cost in the currency of the prices, by the price at the time of each request; requests without a known price are not included"`
}

type bucket struct {
	At time.Time `json:"at"`
	Totals
	P50MS int64 `json:"p50_ms" doc:"The median duration of a run, estimated within a factor of 2"`
	P95MS int64 `json:"p95_ms" doc:"The 95th percentile of the duration of a run, estimated likewise"`
}

type usageOf struct {
	Channel string `json:"channel"`
	Person  string `json:"person,omitempty" doc:"The platform's id"`
	Name    string `json:"name,omitempty" doc:"The person's name"`
	Model   string `json:"model"`
	Totals
}

type statsAnswer struct{ Body stats }

func (c *Channel) getStats(ctx context.Context, in *getStats) (*statsAnswer, error) {
	to, from := in.To, in.From
	if !in.hasTo {
		to = c.Store.Now()
	}
	if !in.hasFrom {
		from = to.Add(-24 * time.Hour)
	}
	hours := (to.Unix() - from.Unix()) / 3600 // time.Duration ends at 292 years
	if !from.Before(to) || hours/int64(in.Bucket) > maxBuckets {
		return nil, problem(http.StatusUnprocessableEntity, "from must be before to, with at most %d buckets of bucket_hours between them.", maxBuckets)
	}
	s, err := stored.New(c.Store).Stats(ctx, from, to, time.Duration(in.Bucket)*time.Hour)
	if err != nil {
		return nil, err
	}
	share := func(u stored.Share) usageOf {
		return usageOf{Channel: u.Channel, Person: u.Person.ID, Name: u.Person.Name, Model: u.Model, Totals: c.totalsOf(u.Model, u.Totals, u.Cost)}
	}
	return &statsAnswer{stats{
		From: s.From.UTC(), To: s.To.UTC(), Usage: mapped(s.Models, share), People: mapped(s.People, share),
		Embeddings: mapped(s.Embeddings, func(e stored.Embeddings) embeddingsOf {
			return embeddingsOf{e.Model, e.Requests, e.Failed, e.Tokens, e.Cost}
		}),
		Buckets: mapped(s.Buckets, func(b stored.Bucket) bucket {
			return bucket{b.At.UTC(), totalsOf(b.Totals), b.P50.Milliseconds(), b.P95.Milliseconds()}
		}),
	}}, nil
}

// maxBuckets is the limit for one request: a year of hours.
const maxBuckets = 366 * 24
