package delivery

import (
	"fmt"
	"runtime/debug"
	"time"

	"parley/activity"
	"parley/channels"
	"parley/conversation"
)

// Option changes how New makes a Sender.
type Option func(*Sender)

// WithOutcomes passes every outcome to observe, which is called from many
// goroutines at once and must not block.
func WithOutcomes(observe func(activity.Outcome)) Option {
	return func(s *Sender) { s.observe = observe }
}

// WithPatience sets how long a reply is retried before it is set aside, when the
// platform fails on it alone. Default 30 s.
func WithPatience(d time.Duration) Option {
	return func(s *Sender) { s.patience = d }
}

// report passes the outcome of a delivery attempt to the observer, if there is one.
func (s *Sender) report(kind activity.OutcomeKind, d conversation.Delivery) {
	if s.observe != nil {
		s.observe(activity.Outcome{Channel: s.sink.Name(), Kind: kind, After: s.outbox.Now().Sub(d.At)})
	}
}

// recovered runs f and returns a panic as a channels.LocalError, so that a reply which causes a panic
// does not end the gateway, now and again at every start.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &channels.LocalError{Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	return f()
}
