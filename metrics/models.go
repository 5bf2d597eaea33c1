package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxModels is how many models are counted by name. The server that answers
// chooses the name, and each has some 40 series.
const maxModels = 64

// models are the names that have become labels.
type models struct {
	mu    sync.Mutex
	known map[string]bool
}

// label returns the name of a model, or "other" when there are too many already.
func (m *models) label(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[name] {
		return name
	}
	if len(m.known) >= maxModels {
		return "other"
	}
	if m.known == nil {
		m.known = map[string]bool{}
	}
	m.known[name] = true
	return name
}

// modelsUp reports which models are called, with each scrape.
type modelsUp struct {
	read func() map[string]bool
	up   *prometheus.Desc
}

func newModelsUp(read func() map[string]bool) modelsUp {
	return modelsUp{read, prometheus.NewDesc("parley_model_up", "1 while a model is called, 0 while it is not because it has failed.", []string{"model"}, nil)}
}

func (m modelsUp) Describe(to chan<- *prometheus.Desc) { to <- m.up }

func (m modelsUp) Collect(to chan<- prometheus.Metric) {
	for name, up := range m.read() {
		to <- prometheus.MustNewConstMetric(m.up, prometheus.GaugeValue, number(up), name)
	}
}
