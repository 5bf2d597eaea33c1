package gateway

import (
	"syscall"
	"testing"
	"time"
)

// GNU timeout sends SIGTERM twice, and the second one interrupted the answers that drain_timeout was for. A person's second Ctrl-C,
// and another signal, still end the gateway at once.
func TestSignalThatComesTwiceAtOnceIsOne(t *testing.T) {
	t.Parallel()
	var last lastSignal
	began := time.Now()
	for _, tt := range []struct {
		kind   syscall.Signal
		after  time.Duration
		repeat bool
	}{
		{syscall.SIGTERM, 0, false},
		{syscall.SIGTERM, 5 * time.Millisecond, true},
		{syscall.SIGTERM, 299 * time.Millisecond, true},
		{syscall.SIGTERM, 301 * time.Millisecond, false},
		{syscall.SIGINT, 302 * time.Millisecond, false},
		{syscall.SIGINT, 303 * time.Millisecond, true},
		{syscall.SIGINT, 900 * time.Millisecond, false},
	} {
		if got := last.isRepeat(tt.kind, began.Add(tt.after)); got != tt.repeat {
			t.Errorf("%v after %v is a repeat: %v", tt.kind, tt.after, got)
		}
	}
}
