package channels

import (
	"errors"
	"fmt"
	"time"
)

// SendError is the error of a part that a platform did not take.
type SendError struct {
	Permanent  bool          // another attempt can't help: blocked, deleted chat, refused content
	Closed     bool          // Permanent, and the place takes nothing else either: blocked, deleted chat
	RetryAfter time.Duration // how long the platform asks to wait, 0 when it does not say
	Err        error         // for the log, without secrets
}

func (e *SendError) Error() string {
	switch {
	case e.Permanent:
		return fmt.Sprintf("refused for good: %v", e.Err)
	case e.RetryAfter > 0:
		return fmt.Sprintf("retry after %s: %v", e.RetryAfter, e.Err)
	}
	return e.Err.Error()
}

func (e *SendError) Unwrap() error { return e.Err }

// ErrNoAlbum says that a platform refuses pictures together which it may take one by one.
var ErrNoAlbum = errors.New("the pictures are refused as an album")

// StuckError is the error of a part that a platform fails on while it takes everything
// else. A channel that can tell the difference wraps it in a SendError.
type StuckError struct {
	HealthySince time.Time // when the platform began to answer everything else
	Err          error
}

func (e *StuckError) Error() string { return e.Err.Error() }
func (e *StuckError) Unwrap() error { return e.Err }

// LocalError is the error of a reply that the gateway itself can't prepare for its
// platform. Another attempt would fail as well, so the reply is given up.
type LocalError struct {
	Words string // for the chat; "": the same as for any reply
	Err   error  // for the log
}

func (e *LocalError) Error() string { return "the reply can't be prepared: " + e.Err.Error() }
func (e *LocalError) Unwrap() error { return e.Err }
