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

// WithOutcomes has observe called with every outcome, from many goroutines at
// once. It must not block.
func WithOutcomes(observe func(activity.Outcome)) Option {
	return func(s *Sender) { s.outcome = observe }
}

// WithPatience sets how long a reply may hold up its session that the platform
// fails on while it works otherwise. Default 30 s.
func WithPatience(d time.Duration) Option {
	return func(s *Sender) { s.patience = d }
}

// tell passes the outcome of a delivery attempt to the observer, if there is one.
func (s *Sender) tell(kind activity.OutcomeKind, d conversation.Delivery) {
	if s.outcome != nil {
		s.outcome(activity.Outcome{Channel: s.sink.Name(), Kind: kind, After: time.Since(d.At)})
	}
}

// guard runs do and returns a panic as a channels.LocalError: one chat's reply must
// not end the gateway, now and at every start.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &channels.LocalError{Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	return do()
}
