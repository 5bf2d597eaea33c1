package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// sessions reports how many sessions there are, which it reads with each scrape.
type sessions struct {
	deps           Deps
	stored, atWork *prometheus.Desc
}

func newSessions(deps Deps) sessions {
	return sessions{
		deps:   deps,
		stored: prometheus.NewDesc("parley_sessions", "Sessions that are stored.", nil, nil),
		atWork: prometheus.NewDesc("parley_sessions_at_work", "Sessions in memory: at work, or idle for a moment.", nil, nil),
	}
}

func (s sessions) Describe(to chan<- *prometheus.Desc) {
	to <- s.stored
	to <- s.atWork
}

func (s sessions) Collect(to chan<- prometheus.Metric) {
	if s.deps.AtWork != nil {
		to <- prometheus.MustNewConstMetric(s.atWork, prometheus.GaugeValue, float64(s.deps.AtWork()))
	}
	if s.deps.Sessions == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	n, err := s.deps.Sessions(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(s.stored, err)
		return
	}
	to <- prometheus.MustNewConstMetric(s.stored, prometheus.GaugeValue, float64(n))
}
