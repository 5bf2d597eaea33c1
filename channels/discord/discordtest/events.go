package discordtest

import "encoding/json"

// event says which sessions get an event.
type event struct {
	kind  string
	guild string // "" is a DM
	needs int    // intent; 0 is none
}

// dispatch sends an event to every session that wants it.
func (s *Server) dispatch(e event, payload any) {
	var raw json.RawMessage
	for _, x := range s.sessions {
		if !x.wants(e) {
			continue
		}
		if raw == nil {
			raw = marshal(payload)
		}
		x.push(e.kind, raw)
	}
}

func marshal(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // a test gave a value that JSON does not have
	}
	return raw
}

// dispatchMessage sends the event of a message; a session without the Message Content intent
// gets it without content.
func (s *Server) dispatchMessage(kind string, m *Message) {
	c := s.channels[m.Channel]
	if !s.sees(c) || m.Ephemeral() {
		return
	}
	e := event{kind: kind, guild: m.Guild, needs: intentGuildMessages}
	if m.Guild == "" {
		e.needs = intentDirectMessages
	}
	var versions [2]json.RawMessage
	for _, x := range s.sessions {
		if !x.wants(e) {
			continue
		}
		i := 0
		if x.intents&intentMessageContent != 0 {
			i = 1
		}
		if versions[i] == nil {
			versions[i] = marshal(s.gatewayMessage(m, i == 1))
		}
		x.push(kind, versions[i])
	}
}

// gatewayMessage returns a message with the fields that only events have.
func (s *Server) gatewayMessage(m *Message, readable bool) wireMessage {
	w := s.wire(m, readable)
	w.GuildID = m.Guild
	if g := s.guilds[m.Guild]; g != nil && m.Interaction == "" {
		if author := g.members[m.Author.ID]; author != nil {
			w.Member = author.wire()
		}
	}
	return w
}

func (s *Server) dispatchDeletion(c *channel, ids []string) {
	if c == nil || !s.sees(c) {
		return
	}
	e := event{kind: "MESSAGE_DELETE", guild: c.Guild, needs: intentGuildMessages}
	if c.Guild == "" {
		e.needs = intentDirectMessages
	}
	payload := map[string]any{"channel_id": c.ID, "id": ids[0]}
	if len(ids) > 1 {
		e.kind = "MESSAGE_DELETE_BULK"
		payload = map[string]any{"channel_id": c.ID, "ids": ids}
	}
	if c.Guild != "" {
		payload["guild_id"] = c.Guild
	}
	s.dispatch(e, payload)
}

// dispatchChannel sends the event of a channel or a thread that was changed.
func (s *Server) dispatchChannel(kind string, c *channel) {
	s.broadcast()
	if !s.sees(c) || c.Guild == "" {
		return
	}
	e := event{kind: kind, guild: c.Guild, needs: intentGuilds}
	if kind == "THREAD_DELETE" {
		s.dispatch(e, map[string]any{"id": c.ID, "guild_id": c.Guild, "parent_id": c.Parent, "type": c.Type})
		return
	}
	s.dispatch(e, s.wireChannel(c))
}

// dispatchThreadCreate sends the event of a thread that is new, not only new to the bot.
func (s *Server) dispatchThreadCreate(c *channel) {
	s.broadcast()
	if !s.sees(c) {
		return
	}
	w := s.wireChannel(c)
	w.NewlyCreated = true
	s.dispatch(event{kind: "THREAD_CREATE", guild: c.Guild, needs: intentGuilds}, w)
}

// dispatchThreadListSync sends the threads of a channel that the bot sees from now on.
func (s *Server) dispatchThreadListSync(c *channel) {
	threads := []wireChannel{}
	for _, t := range s.threadsOf(c.ID) {
		if !t.archived && s.sees(t) {
			threads = append(threads, s.wireChannel(t))
		}
	}
	s.dispatch(event{kind: "THREAD_LIST_SYNC", guild: c.Guild, needs: intentGuilds}, map[string]any{
		"guild_id": c.Guild, "channel_ids": []string{c.ID}, "threads": threads, "members": []any{},
	})
}

func (s *Server) dispatchGuild(g *guild) {
	s.dispatch(event{kind: "GUILD_CREATE", guild: g.ID, needs: intentGuilds}, s.wireGuild(g))
	s.broadcast()
}
