package channels

import (
	"fmt"
	"runtime/debug"
	"time"

	"parley/conversation"
)

// Outcome is how a try to deliver a reply ended.
type Outcome struct {
	Channel string
	Kind    OutcomeKind
	After   time.Duration // since the reply was committed
}

// OutcomeKind says what a try came to.
type OutcomeKind string

const (
	Sent    OutcomeKind = "sent"    // the platform has every part
	Retried OutcomeKind = "retried" // a part was not taken; it is tried again
	Failed  OutcomeKind = "failed"  // it never will be
)

// SenderOption changes how NewSender makes a Sender.
type SenderOption func(*Sender)

// WithOutcomes has tell told of every outcome, from many goroutines at once. It
// must not block.
func WithOutcomes(tell func(Outcome)) SenderOption {
	return func(s *Sender) { s.outcome = tell }
}

// tell tells whoever asks how a try ended.
func (s *Sender) tell(kind OutcomeKind, d conversation.Delivery) {
	if s.outcome != nil {
		s.outcome(Outcome{Channel: s.channel.Name(), Kind: kind, After: time.Since(d.At)})
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
