package discordtest

// Permission is a set of what the bot may do in a place.
// https://discord.com/developers/docs/topics/permissions
type Permission int64

// The permissions that a chatting bot needs, and All of them.
const (
	Administrator       Permission = 1 << 3
	ManageGuild         Permission = 1 << 5
	ViewChannel         Permission = 1 << 10
	SendMessages        Permission = 1 << 11
	EmbedLinks          Permission = 1 << 14
	AttachFiles         Permission = 1 << 15
	ReadMessageHistory  Permission = 1 << 16
	ManageThreads       Permission = 1 << 34
	CreatePublicThreads Permission = 1 << 35
	CreatePrivateThread Permission = 1 << 36
	SendInThreads       Permission = 1 << 38

	All = ViewChannel | SendMessages | EmbedLinks | AttachFiles | ReadMessageHistory |
		ManageThreads | CreatePublicThreads | CreatePrivateThread | SendInThreads
)

// Grant gives a role permissions beside those that every role has.
func (s *Server) Grant(to Role, p Permission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.mustGuild(to.Guild)
	for i := range g.roles {
		if g.roles[i].ID == to.ID {
			g.roles[i].permissions |= p
		}
	}
}

// SetOwner makes somebody the owner of a guild.
func (s *Server) SetOwner(of Guild, who User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.mustGuild(of.ID)
	g.join(s.mustUser(who))
	g.owner = who.ID
}

// Deny takes permissions from the bot, in a channel and all threads of it.
func (s *Server) Deny(place Channel, p Permission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChannel(place.ID)
	c.denied |= p
	s.dispatchChannel("CHANNEL_UPDATE", c)
}

// Allow gives permissions back. When the bot begins to see the channel, it is
// told of its threads.
func (s *Server) Allow(place Channel, p Permission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChannel(place.ID)
	gained := c.denied & p & ViewChannel
	c.denied &^= p
	s.dispatchChannel("CHANNEL_UPDATE", c)
	if gained != 0 {
		s.dispatchThreadListSync(c)
	}
}

// may reports whether the bot has all of the permissions in the place. A thread
// takes them from its channel.
func (s *Server) may(c *channel, p Permission) bool {
	if c.Guild == "" {
		return true
	}
	denied := c.denied
	if parent := s.channels[c.Parent]; c.IsThread() && parent != nil {
		denied |= parent.denied
	}
	return denied&p == 0
}

// sees reports whether the bot sees the place at all.
func (s *Server) sees(c *channel) bool {
	if c.Type == PrivateThread && !c.members[Bot.ID] && !s.may(c, ManageThreads) {
		return false
	}
	return s.may(c, ViewChannel)
}

// place is the channel that a request is about, if the bot sees it.
func (s *Server) place(id string) (*channel, error) {
	if !isSnowflake(id) {
		return nil, invalid("channel_id", "NUMBER_TYPE_COERCE", "Value %q is not snowflake.", id)
	}
	c := s.channels[id]
	switch {
	case c == nil:
		return nil, UnknownChannel
	case !s.sees(c):
		return nil, MissingAccess
	}
	return c, nil
}
