package discordtest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
)

// identity is what a client says about itself.
// https://discord.com/developers/docs/events/gateway-events#identify
type identity struct {
	Token      string          `json:"token"`
	Properties json.RawMessage `json:"properties"`
	Shard      *[2]int         `json:"shard"`
	Intents    *int            `json:"intents"`
}

func isToken(token string) bool { return strings.TrimPrefix(token, "Bot ") == Token }

func (s *Server) identify(c *socket, data json.RawMessage) {
	var id identity
	err := json.Unmarshal(data, &id)
	switch {
	case c.session != nil:
		s.closeBadly(c, AlreadyIdentified, "a second IDENTIFY on one connection")
	case err != nil:
		s.closeBadly(c, DecodeError, "IDENTIFY: %v", err)
	case !isToken(id.Token):
		c.close(AuthFailed)
	case len(id.Properties) == 0:
		s.closeBadly(c, DecodeError, "IDENTIFY without properties")
	case id.Intents == nil || *id.Intents&^knownIntents != 0:
		s.closeBadly(c, InvalidIntents, "IDENTIFY with intents %s", intentsOf(id.Intents))
	case s.config.disallowed(*id.Intents) != 0:
		c.close(DisallowedIntents)
	case !validShard(id.Shard):
		s.closeBadly(c, InvalidShard, "IDENTIFY with shard %v", *id.Shard)
	case s.tooManyIdentifies(id.Shard):
		s.violate("gateway: more than one IDENTIFY in 5 s")
		c.writeOp(opInvalidSession, false)
	default:
		s.begin(c, id)
	}
}

func intentsOf(intents *int) string {
	if intents == nil {
		return "absent"
	}
	return string(marshal(*intents))
}

func validShard(shard *[2]int) bool {
	return shard == nil || shard[0] >= 0 && shard[0] < shard[1]
}

// tooManyIdentifies applies max_concurrency, if the test set one.
// https://discord.com/developers/docs/events/gateway#rate-limiting
func (s *Server) tooManyIdentifies(shard *[2]int) bool {
	if s.config.MaxConcurrency == 0 {
		return false
	}
	key := 0
	if shard != nil {
		key = shard[0] % s.config.MaxConcurrency
	}
	now := s.now()
	if last, ok := s.identifies[key]; ok && now.Sub(last) < 5*time.Second {
		return true
	}
	s.identifies[key] = now
	return false
}

// begin creates a session, and sends READY and an event for every guild.
func (s *Server) begin(c *socket, id identity) {
	s.expire()
	x := &session{id: strings.ReplaceAll(uuid.NewString(), "-", ""), intents: *id.Intents, conn: c}
	if id.Shard != nil {
		x.shard, x.shards = id.Shard[0], id.Shard[1]
	}
	c.session = x
	s.sessions[x.id] = x
	s.counts.Identifies++
	var guilds []*guild
	unavailable := []map[string]any{}
	for _, id := range s.order {
		if x.wants(event{guild: id}) {
			guilds = append(guilds, s.guilds[id])
			unavailable = append(unavailable, map[string]any{"id": id, "unavailable": true})
		}
	}
	ready := map[string]any{
		"v": 9, "user": Bot, "guilds": unavailable, "session_id": x.id, "resume_gateway_url": s.gatewayURL(),
		"application":      map[string]any{"id": ApplicationID, "flags": s.applicationFlags()},
		"private_channels": []any{}, "session_type": "normal", "_trace": []string{},
	}
	if id.Shard != nil {
		ready["shard"] = *id.Shard
	}
	x.push("READY", marshal(ready))
	if x.intents&intentGuilds == 0 {
		return
	}
	for _, g := range guilds {
		x.push("GUILD_CREATE", marshal(s.wireGuild(g)))
	}
}

// resume continues a session with what it missed, or says that it can't.
// https://discord.com/developers/docs/events/gateway#resuming
func (s *Server) resume(c *socket, data json.RawMessage) {
	var r struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     *int64 `json:"seq"`
	}
	err := json.Unmarshal(data, &r)
	switch {
	case c.session != nil:
		s.closeBadly(c, AlreadyIdentified, "RESUME on a connection that has a session")
		return
	case err != nil || r.Seq == nil:
		s.closeBadly(c, DecodeError, "RESUME of %.200s: %v", data, err)
		return
	case !isToken(r.Token):
		c.close(AuthFailed)
		return
	}
	if s.noResume != nil {
		c.close(*s.noResume)
		return
	}
	s.expire()
	x := s.sessions[r.Session]
	if x == nil || x.forgotten {
		s.reject(c)
		return
	}
	if *r.Seq > x.seq {
		s.closeBadly(c, InvalidSeq, "RESUME from %d, the last event was %d", *r.Seq, x.seq)
		return
	}
	if x.conn != nil {
		x.conn.close(Close{4000, "The session was resumed elsewhere."})
	}
	x.conn = c
	if !x.replay(*r.Seq) {
		s.drop(x)
		s.reject(c)
		return
	}
	c.session = x
	s.counts.Resumes++
}

// reject answers a RESUME that must become an IDENTIFY.
func (s *Server) reject(c *socket) {
	s.counts.Rejected++
	c.writeOp(opInvalidSession, false)
}
