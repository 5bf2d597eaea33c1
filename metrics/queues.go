package metrics

import (
	"context"
	"time"

	"parley/conversation/bots"

	"github.com/prometheus/client_golang/prometheus"
)

// readTimeout is how long a scrape waits for the store.
const readTimeout = 5 * time.Second

// queues reports the queues, which it reads from the store with each scrape.
type queues struct {
	read                                   func(context.Context) ([]bots.Queue, error)
	now                                    func() time.Time
	waiting, oldestWaiting, due, oldestDue *prometheus.Desc
	held, oldestHeld                       *prometheus.Desc
}

func newQueues(read func(context.Context) ([]bots.Queue, error), now func() time.Time) queues {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"channel"}, nil)
	}
	return queues{
		read:          read,
		now:           now,
		waiting:       desc("parley_inbox_waiting", "Messages that no run has settled yet."),
		oldestWaiting: desc("parley_inbox_oldest_seconds", "How long ago the oldest of them was written."),
		due:           desc("parley_outbox_due", "Replies to be sent."),
		oldestDue:     desc("parley_outbox_oldest_seconds", "How long ago the run of the oldest of them ended."),
		held:          desc("parley_outbox_held", "Replies to be sent that are set aside: the platform fails on them, and takes others."),
		oldestHeld:    desc("parley_outbox_held_oldest_seconds", "How long ago the oldest of them was set aside."),
	}
}

func (q queues) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{q.waiting, q.oldestWaiting, q.due, q.oldestDue, q.held, q.oldestHeld} {
		to <- desc
	}
}

func (q queues) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	list, err := q.read(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(q.waiting, err)
		return
	}
	for _, of := range byChannel(list) {
		gauge := func(desc *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, of.Channel)
		}
		gauge(q.waiting, float64(of.Waiting))
		gauge(q.oldestWaiting, q.age(of.OldestWaiting))
		gauge(q.due, float64(of.Due))
		gauge(q.oldestDue, q.age(of.OldestDue))
		gauge(q.held, float64(of.Held))
		gauge(q.oldestHeld, q.age(of.OldestHeld))
	}
}

// byChannel adds up the queues of the bots of each channel, which are next to
// each other in the list.
func byChannel(list []bots.Queue) []bots.Queue {
	var sums []bots.Queue
	for _, q := range list {
		if n := len(sums); n > 0 && sums[n-1].Channel == q.Channel {
			sums[n-1] = sums[n-1].Plus(q)
		} else {
			sums = append(sums, q)
		}
	}
	return sums
}

// age returns how many seconds ago something was, and 0 for the zero time and for
// a time in the future, which a platform's clock may give.
func (q queues) age(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, q.now().Sub(at).Seconds())
}
