package channels

import (
	"fmt"
	"runtime/debug"
	"time"

	"parley/activity"
	"parley/conversation"
)

// SenderOption changes how NewSender makes a Sender.
type SenderOption func(*Sender)

// WithOutcomes has tell told of every outcome, from many goroutines at once. It
// must not block.
func WithOutcomes(tell func(activity.Outcome)) SenderOption {
	return func(s *Sender) { s.outcome = tell }
}

// tell tells whoever asks how a try ended.
func (s *Sender) tell(kind activity.OutcomeKind, d conversation.Delivery) {
	if s.outcome != nil {
		s.outcome(activity.Outcome{Channel: s.channel.Name(), Kind: kind, After: time.Since(d.At)})
	}
}

// guard runs do and returns a panic as a LocalError: one chat's reply must not
// end the gateway, now and at every start.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &LocalError{Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	return do()
}
