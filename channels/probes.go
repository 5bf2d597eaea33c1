package channels

import (
	"cmp"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Probes is how often a platform that rejects the gateway's credentials is asked
// again: it may be an outage of the platform's, or the operator may mend it there.
type Probes struct {
	First time.Duration // the first wait, which doubles from try to try; zero: 30 s
	Most  time.Duration // the longest wait; zero: 15 min
}

// BackOff returns the waits between the probes, each up to a fifth longer or
// shorter so that many gateways do not ask at once.
func (p Probes) BackOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = cmp.Or(p.First, 30*time.Second), cmp.Or(p.Most, 15*time.Minute)
	b.Multiplier, b.RandomizationFactor = 2, 0.2
	return b
}
