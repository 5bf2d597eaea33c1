package cluster

import "time"

// observer finds the members that no longer renew their membership. That a membership has
// expired is not enough: after an outage of the database all have. The observer must itself
// have read the database for a TTL and have seen that the member did not renew.
type observer struct {
	ttl    time.Duration
	latest time.Time // when the latest read came back
	seen   map[int64]sighting
}

type sighting struct {
	expires int64     // expiry of the membership, as stored
	since   time.Time // when the first read that found this expiry came back
}

func newObserver(ttl time.Duration) observer {
	return observer{ttl: ttl, seen: map[int64]sighting{}}
}

// forget begins anew, after a read that has failed.
func (o *observer) forget() { clear(o.seen) }

// read takes the members that were read between two times. It returns those to be declared dead, and how
// long it takes until the next one may have to be.
func (o *observer) read(sent, received time.Time, members []Member) (dead []Member, wait time.Duration) {
	if received.Sub(o.latest) > o.ttl/2 { // this process was paused, or the database did not answer
		o.forget()
	}
	o.latest = received
	wait = o.ttl
	seen := make(map[int64]sighting, len(members))
	for _, m := range members {
		s, known := o.seen[m.ID]
		if !known || s.expires != m.expires {
			s = sighting{expires: m.expires, since: received}
		}
		seen[m.ID] = s
		unchanged := sent.Sub(s.since)
		if (m.expired || m.isAhead) && unchanged >= o.ttl {
			dead = append(dead, m)
		} else if left := o.ttl - unchanged; left > 0 {
			wait = min(wait, left)
		}
	}
	o.seen = seen
	return dead, wait
}
