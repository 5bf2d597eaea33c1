package cluster

import (
	"testing"
	"time"
)

// A node reads the members once in each heartbeat, and declares one that has ended dead within a heartbeat after
// its membership has expired, whenever it ended. It never does so before.
func TestDeathIsNoticedWithinAHeartbeat(t *testing.T) {
	t.Parallel()
	const heartbeat, ttl, latency = time.Second, 5 * time.Second, 3 * time.Millisecond
	start := time.Unix(1_800_000_000, 0)
	for ended := time.Duration(0); ended < 2*heartbeat; ended += 7 * time.Millisecond {
		expires := start.Add(ended).UnixMilli() + ttl.Milliseconds() // it has renewed its membership as its last deed
		o := newObserver(ttl)
		var found time.Time
		for now := start; found.IsZero() && now.Before(start.Add(time.Minute)); {
			m := Member{ID: 1, expires: expires}
			if now.Before(start.Add(ended)) {
				m.expires = now.UnixMilli() + ttl.Milliseconds() // it lives
			}
			m.expired = m.expires < now.UnixMilli()
			dead, wait := o.read(now, now.Add(latency), []Member{m})
			if len(dead) > 0 {
				found = now
			}
			now = now.Add(min(wait, heartbeat) + latency)
		}
		late := found.Sub(time.UnixMilli(expires))
		if late < 0 || late > heartbeat+10*latency {
			t.Fatalf("a node that ended %v after another one's read is declared dead %v after its membership has expired", ended, late)
		}
	}
}
