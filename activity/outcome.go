package activity

import "time"

// Outcome is how an attempt to deliver a reply ended.
type Outcome struct {
	Channel string
	Kind    OutcomeKind
	After   time.Duration // time since the reply was committed
}

// OutcomeKind says what an attempt came to.
type OutcomeKind string

const (
	Sent    OutcomeKind = "sent"    // the platform has every part
	Retried OutcomeKind = "retried" // a part was not taken; it is tried again
	Failed  OutcomeKind = "failed"  // the reply is given up
)
