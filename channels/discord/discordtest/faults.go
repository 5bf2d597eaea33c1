package discordtest

import "slices"

// Fail answers the next n requests of a route with the verdict, such as
// "PATCH /channels/{channel}"; the names are in http.go, and any other panics.
func (s *Server) Fail(route string, v Verdict, n int) {
	if s.handlers()[route] == nil && route != downloads {
		panic("discordtest: no such route: " + route)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures[route] = append(s.failures[route], slices.Repeat([]Verdict{v}, n)...)
}

// Refuse gives the verdict to the next n requests that change something in a
// place: messages, edits, deletions, typing, threads.
func (s *Server) Refuse(place Channel, v Verdict, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChannel(place.ID)
	c.refusals = append(c.refusals, slices.Repeat([]Verdict{v}, n)...)
}

// OnSend sets functions that decide about every new message of the bot that the server
// would take: before is called before the message is recorded, after when people already see
// it but the bot has no answer yet. Either may be nil or block, and is called without locks.
// They are not called for a message that repeats another one by its nonce.
func (s *Server) OnSend(before, after func(Message) Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// DropConnections cuts every gateway connection without a close frame. The
// sessions can be resumed.
func (s *Server) DropConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		c.ws.NetConn().Close()
	}
}

// CloseConnections ends every gateway connection with a code. Sessions end
// with the codes that Discord calls final.
func (s *Server) CloseConnections(with Close) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		if with.final() {
			s.drop(c.session)
		}
		c.close(with)
	}
}

// final reports whether the code forbids a client to resume.
func (c Close) final() bool {
	return slices.Contains([]Close{AuthFailed, InvalidSeq, SessionTimedOut, InvalidShard, ShardingRequired,
		InvalidVersion, InvalidIntents, DisallowedIntents}, c)
}

// CloseNext ends the next n connections with a code instead of HELLO.
func (s *Server) CloseNext(with Close, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greet = append(s.greet, slices.Repeat([]Close{with}, n)...)
}

// InvalidateSessions tells every client that has a session on its connection
// that it is invalid. One that is resumable is kept, and the client may RESUME
// it; otherwise the client must IDENTIFY. Clients that were told so before, and have not
// answered yet, have no session to lose and are told nothing.
func (s *Server) InvalidateSessions(resumable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		x := c.session
		if x == nil {
			continue
		}
		c.session, x.conn, x.detached = nil, nil, s.now()
		if !resumable {
			s.drop(x)
		}
		c.writeOp(opInvalidSession, resumable)
	}
}

// ForgetSessions makes every later RESUME fail, without telling the clients that are
// connected.
func (s *Server) ForgetSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		x.forgotten = true
	}
}

// CloseResumes answers every later RESUME by closing the connection with a code.
func (s *Server) CloseResumes(with Close) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noResume = &with
}

// AskReconnect asks every client to connect again and resume (opcode 7).
func (s *Server) AskReconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		c.writeOp(opReconnect, nil)
	}
}

// Speak sends every client a text, which need not be a valid payload.
func (s *Server) Speak(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		c.write([]byte(payload))
	}
}

// SpeakNext sends a payload, such as Reconnect, to the next client that connects, right after
// HELLO. Only the last such payload is kept.
func (s *Server) SpeakNext(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeting = payload
}

// Reconnect asks a client to connect again, as AskReconnect does.
const Reconnect = `{"op":7,"d":null,"s":null,"t":null}`

// StopAcks leaves heartbeats unanswered from now on, as a dead connection does; with false
// they are answered again.
func (s *Server) StopAcks(stop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = stop
}

// Push sends a raw event of a guild ("" is none) to the sessions, whatever
// their intents, such as one that clients do not know.
func (s *Server) Push(kind string, in Guild, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch(event{kind: kind, guild: in.ID}, rawJSON(data))
}

// rawJSON is put into a payload as it is.
type rawJSON string

// MarshalJSON returns the text itself.
func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }
