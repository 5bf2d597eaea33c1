package discordtest

import (
	"encoding/json"
	"strconv"
	"time"
)

// How much Discord keeps of a session without a connection. Discord documents no
// numbers; these are what bots see in practice.
const (
	resumeWindow = 3 * time.Minute
	maxReplay    = 20_000 // events
)

// session is one that a client began with IDENTIFY. It outlives its
// connection, so that it can be resumed.
type session struct {
	id       string
	intents  int
	shard    int
	shards   int
	seq      int64   // sequence number of the last event
	sent     []sent  // events that the client may ask for again
	conn     *socket // nil while detached
	detached time.Time
	// forgotten sessions go on while they are connected, and can't be resumed.
	forgotten bool
}

// sent is an event of a session.
type sent struct {
	seq  int64
	kind string
	data json.RawMessage
}

// frame is the event as it goes over the wire.
func (e sent) frame() []byte {
	f := make([]byte, 0, len(e.data)+len(e.kind)+48)
	f = append(f, `{"t":"`...)
	f = append(f, e.kind...)
	f = append(f, `","s":`...)
	f = strconv.AppendInt(f, e.seq, 10)
	f = append(f, `,"op":0,"d":`...)
	f = append(f, e.data...)
	return append(f, '}')
}

// push gives an event to the session: to its connection, and to what is kept
// for a resume.
func (x *session) push(kind string, data json.RawMessage) {
	x.seq++
	e := sent{x.seq, kind, data}
	x.sent = append(x.sent, e)
	if len(x.sent) > maxReplay {
		x.sent = append([]sent(nil), x.sent[maxReplay/2:]...)
	}
	if x.conn != nil {
		x.conn.write(e.frame())
	}
}

// acknowledge forgets the events up to one that the client has told of.
func (x *session) acknowledge(seq int64) {
	n := 0
	for n < len(x.sent) && x.sent[n].seq <= seq {
		n++
	}
	x.sent = x.sent[n:]
}

// replay pushes again what came after seq, and RESUMED. It is false when that
// is not kept any more, or never was.
func (x *session) replay(seq int64) bool {
	if seq > x.seq || len(x.sent) > 0 && seq < x.sent[0].seq-1 || len(x.sent) == 0 && seq < x.seq {
		return false
	}
	for _, e := range x.sent {
		if e.seq > seq {
			x.conn.write(e.frame())
		}
	}
	x.push("RESUMED", json.RawMessage(`{"_trace":[]}`))
	return true
}

// wants reports whether the session gets events that need an intent and come
// from a guild ("" is a DM).
// https://discord.com/developers/docs/events/gateway#sharding-sharding-formula
func (x *session) wants(e event) bool {
	if e.needs != 0 && x.intents&e.needs == 0 {
		return false
	}
	return x.shards == 0 || int(number(e.guild)>>22%uint64(x.shards)) == x.shard
}

// expire forgets the sessions that can't be resumed any more.
func (s *Server) expire() {
	for id, x := range s.sessions {
		if x.conn == nil && s.now().Sub(x.detached) > resumeWindow {
			delete(s.sessions, id)
		}
	}
}
