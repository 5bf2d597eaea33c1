package channels_test

import (
	"testing"
	"time"

	"parley/channels"
)

func TestProbesWaitLongerAndLongerWithinBounds(t *testing.T) {
	t.Parallel()
	waits := channels.Probes{}.BackOff()
	least := 24 * time.Second
	for n := range 40 {
		wait := waits.NextBackOff()
		if wait < least || wait > 18*time.Minute {
			t.Fatalf("wait %d is %s, want at least %s and at most 18m", n, wait, least)
		}
		least = min(12*time.Minute, 2*least)
	}
}
