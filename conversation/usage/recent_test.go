package usage

import (
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/storetest"
)

// The last hour is summed up by the minute: which runs ended, how, and how long they took.
func TestLastHourIsSummedByTheMinute(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	from := clock.Time
	askNow(t, s, clock, storetest.Chat, 1, ada, time.Second, nil)
	clock.Pass(time.Minute)
	for n := 2; n <= 21; n++ {
		askNow(t, s, clock, storetest.Chat, n, ada, time.Duration(n)*time.Second, func(r *conversation.Run) {
			if n == 21 {
				r.Status = conversation.StatusFailed
			}
		})
	}
	askNow(t, s, clock, storetest.Chat, 30, ada, time.Hour, func(r *conversation.Run) { r.Kind = conversation.KindCommand })
	buckets, err := New(s).Recent(t.Context(), from.Add(time.Second), from.Add(3*time.Minute), time.Minute)
	if err != nil || len(buckets) != 3 {
		t.Fatalf("%d buckets, %v", len(buckets), err)
	}
	b := buckets[0]
	if b.Runs != 20 || b.Failed != 1 || b.Prompt != 2000 || b.P50 != 11*time.Second || b.P95 != 20*time.Second {
		t.Errorf("%+v", b)
	}
	if buckets[1].Runs != 0 || buckets[1].P95 != 0 {
		t.Errorf("in a minute without runs: %+v", buckets[1])
	}
}
