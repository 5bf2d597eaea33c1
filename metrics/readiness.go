package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// readiness reports whether the gateway is ready and which channels serve, with each scrape.
type readiness struct {
	read          func(context.Context) (ready bool, channelsUp map[string]bool)
	ready, serves *prometheus.Desc
}

func newReadiness(read func(context.Context) (bool, map[string]bool)) readiness {
	return readiness{
		read:   read,
		ready:  prometheus.NewDesc("parley_ready", "1 while /readyz answers 200, else 0.", nil, nil),
		serves: prometheus.NewDesc("parley_channel_up", "1 while a channel serves, 0 while its platform can't be reached or rejects the bot, and when it has ended.", []string{"channel"}, nil),
	}
}

func (r readiness) Describe(to chan<- *prometheus.Desc) {
	to <- r.ready
	to <- r.serves
}

func (r readiness) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	ready, channels := r.read(ctx)
	to <- prometheus.MustNewConstMetric(r.ready, prometheus.GaugeValue, number(ready))
	for name, up := range channels {
		to <- prometheus.MustNewConstMetric(r.serves, prometheus.GaugeValue, number(up), name)
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
