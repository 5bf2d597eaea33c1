package discordtest

import (
	"cmp"
	"slices"
	"strconv"
)

// wireGuild is a guild as GUILD_CREATE carries it.
// https://discord.com/developers/docs/events/gateway-events#guild-create
type wireGuild struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	OwnerID     string        `json:"owner_id"`
	Roles       []wireRole    `json:"roles"`
	Unavailable bool          `json:"unavailable"`
	Large       bool          `json:"large"`
	MemberCount int           `json:"member_count"`
	JoinedAt    string        `json:"joined_at"`
	Members     []*wireMember `json:"members"`
	Channels    []wireChannel `json:"channels"`
	Threads     []wireChannel `json:"threads"`
	Emojis      []any         `json:"emojis"`
	Presences   []any         `json:"presences"`
	VoiceStates []any         `json:"voice_states"`
	System      string        `json:"system_channel_id,omitempty"`
}

type wireRole struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Permissions string `json:"permissions"`
	Position    int    `json:"position"`
}

func (s *Server) wireGuild(g *guild) wireGuild {
	w := wireGuild{
		ID: g.ID, Name: g.Name, OwnerID: g.owner, MemberCount: len(g.members), JoinedAt: timestamp(g.since), System: g.system,
		Roles: g.wireRoles(), Channels: []wireChannel{}, Threads: []wireChannel{},
		Emojis: []any{}, Presences: []any{}, VoiceStates: []any{},
	}
	for _, id := range g.joined {
		w.Members = append(w.Members, g.members[id].wireWithUser())
	}
	for _, c := range s.channelsOf(g) {
		switch {
		case !s.sees(c):
		case !c.IsThread():
			w.Channels = append(w.Channels, s.wireChannel(c))
		case !c.archived:
			w.Threads = append(w.Threads, s.wireChannel(c))
		}
	}
	return w
}

func (g *guild) wireRoles() []wireRole {
	var roles []wireRole
	for i, r := range g.roles {
		roles = append(roles, wireRole{r.ID, r.Name, strconv.FormatInt(int64(All|r.permissions), 10), i})
	}
	return roles
}

// channelsOf returns the channels and threads of a guild, oldest first.
func (s *Server) channelsOf(g *guild) []*channel {
	var found []*channel
	for _, c := range s.channels {
		if c.Guild == g.ID {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *channel) int { return cmp.Compare(number(a.ID), number(b.ID)) })
	return found
}

// guildOf returns the guild that a request is about, if the bot is in it.
func (s *Server) guildOf(r *request) (*guild, error) {
	if g := s.guilds[r.PathValue("guild")]; g != nil {
		return g, nil
	}
	return nil, UnknownGuild
}

func (s *Server) getGuild(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.guildOf(r)
	if err != nil {
		return nil, err
	}
	return map[string]any{"id": g.ID, "name": g.Name, "owner_id": g.owner, "roles": g.wireRoles(), "emojis": []any{}}, nil
}

func (s *Server) getGuildChannels(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.guildOf(r)
	if err != nil {
		return nil, err
	}
	return s.wireGuild(g).Channels, nil
}

func (s *Server) getActiveThreads(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.guildOf(r)
	if err != nil {
		return nil, err
	}
	return map[string]any{"threads": s.wireGuild(g).Threads, "members": []any{}}, nil
}

func (s *Server) getMember(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.guildOf(r)
	if err != nil {
		return nil, err
	}
	m := g.members[r.PathValue("user")]
	if m == nil {
		return nil, Verdict{Status: 404, Code: 10007, Message: "Unknown Member"}
	}
	return m.wireWithUser(), nil
}
