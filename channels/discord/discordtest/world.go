package discordtest

import (
	"time"

	"fmt"
	"slices"
)

// guild is what the server knows of a Guild.
type guild struct {
	Guild
	members map[string]*member
	joined  []string // ids of the members, in order
	roles   []Role
	owner   string    // user; empty while no test asks
	since   time.Time // when the bot was added
	system  string    // the channel in which Discord welcomes newcomers, "" = none
}

// member is a user in a guild.
type member struct {
	user  *User
	roles []string
}

// channel is what the server knows of a Channel.
type channel struct {
	Channel
	messages []*Message // messages of the channel, by ID
	refusals []Verdict  // consumed one a request that changes something

	denied Permission // to the bot

	recipient *User // ID of the user with whom a DM is
	closed    bool  // the recipient takes no DMs from the bot

	owner    string // ID of the user who opened a thread
	members  map[string]bool
	archived bool
	locked   bool
}

// Person makes a user with a name.
func (s *Server) Person(name string) User { return s.addUser(name, false) }

// OtherBot makes another bot's account.
func (s *Server) OtherBot(name string) User { return s.addUser(name, true) }

func (s *Server) addUser(name string, bot bool) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &User{ID: s.newID(), Username: name, GlobalName: name, Discriminator: "0", Bot: bot}
	s.users[u.ID] = u
	return *u
}

// RenameUser gives somebody another username.
func (s *Server) RenameUser(who User, name string) User {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.mustUser(who)
	u.Username = name
	return *u
}

// Guild makes a guild with the bot in it. Guilds made one after the other
// belong to different shards.
func (s *Server) Guild(name string) Guild {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.newGuild(name)
	s.dispatchGuild(g)
	return g.Guild
}

// AddBot makes a guild of an owner to which the bot has just been added, with a channel
// in which Discord welcomes newcomers. The bot lacks the denied permissions there.
func (s *Server) AddBot(name string, owner User, denied Permission) (Guild, Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.newGuild(name)
	g.since, g.owner = time.Now(), owner.ID
	g.join(s.mustUser(owner))
	c := s.addChannel(Channel{ID: s.newID(), Guild: g.ID, Name: "general", Type: TextChannel})
	g.system, c.denied = c.ID, denied
	s.dispatchGuild(g)
	return g.Guild, c.Channel
}

func (s *Server) newGuild(name string) *guild {
	g := &guild{Guild: Guild{ID: s.newGuildID(), Name: name}, members: map[string]*member{}, since: time.UnixMilli(epoch)}
	g.roles = []Role{{ID: g.ID, Guild: g.ID, Name: "@everyone"}}
	g.join(&Bot)
	s.guilds[g.ID] = g
	s.order = append(s.order, g.ID)
	return g
}

// RemoveBot takes the bot out of a guild, with all of its channels.
func (s *Server) RemoveBot(from Guild) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guilds, from.ID)
	s.order = slices.DeleteFunc(s.order, func(id string) bool { return id == from.ID })
	for id, c := range s.channels {
		if c.Guild == from.ID {
			delete(s.channels, id)
		}
	}
	s.dispatch(event{kind: "GUILD_DELETE", guild: from.ID, needs: intentGuilds}, map[string]any{"id": from.ID})
}

func (g *guild) join(u *User) *member {
	m := g.members[u.ID]
	if m == nil {
		m = &member{user: u}
		g.members[u.ID] = m
		g.joined = append(g.joined, u.ID)
	}
	return m
}

// Role makes a role of a guild.
func (s *Server) Role(of Guild, name string) Role {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.mustGuild(of.ID)
	r := Role{ID: s.newID(), Guild: g.ID, Name: name}
	g.roles = append(g.roles, r)
	return r
}

// Join makes a user a member of a guild, with exactly these roles. Who speaks
// in a guild becomes a member without it.
func (s *Server) Join(to Guild, who User, roles ...Role) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mustGuild(to.ID).join(s.mustUser(who))
	m.roles = nil
	for _, r := range roles {
		m.roles = append(m.roles, r.ID)
	}
}

// Channel makes a text channel in a guild.
func (s *Server) Channel(in Guild, name string) Channel {
	return s.ChannelOfType(in, name, TextChannel)
}

// ChannelOfType makes a channel of another kind, such as ForumChannel.
func (s *Server) ChannelOfType(in Guild, name string, kind int) Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustGuild(in.ID)
	c := s.addChannel(Channel{ID: s.newID(), Guild: in.ID, Name: name, Type: kind})
	s.dispatchChannel("CHANNEL_CREATE", c)
	return c.Channel
}

func (s *Server) addChannel(c Channel) *channel {
	known := &channel{Channel: c, members: map[string]bool{}}
	s.channels[c.ID] = known
	return known
}

// Rename gives a channel or a thread another name, as its owner may.
func (s *Server) Rename(place Channel, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChannel(place.ID)
	c.Name = name
	s.dispatchChannel(c.updated(), c)
}

// Remove deletes a channel or a thread, as a moderator may.
func (s *Server) Remove(place Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChannel(place.ID)
	kind := "CHANNEL_DELETE"
	if c.IsThread() {
		kind = "THREAD_DELETE"
	}
	s.dispatchChannel(kind, c)
	delete(s.channels, c.ID)
	for id, thread := range s.channels {
		if thread.Parent == c.ID {
			delete(s.channels, id)
		}
	}
}

// DM is the place where a user and the bot talk alone.
func (s *Server) DM(with User) Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dmWith(s.mustUser(with)).Channel
}

func (s *Server) dmWith(u *User) *channel {
	if id, ok := s.dms[u.ID]; ok {
		return s.channels[id]
	}
	c := s.addChannel(Channel{ID: s.newID(), Type: DMChannel})
	c.recipient = u
	s.dms[u.ID] = c.ID
	return c
}

// CloseDM makes the bot's messages to a user fail with 50007, as if the user
// had blocked it or taken no messages from strangers.
func (s *Server) CloseDM(with User, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dmWith(s.mustUser(with)).closed = closed
}

// Place returns a channel, thread or DM as it is now, and reports whether it exists.
func (s *Server) Place(id string) (Channel, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[id]
	if c == nil {
		return Channel{}, false
	}
	return c.Channel, true
}

// The must functions panic if a test names something that it never created.

func (s *Server) mustGuild(id string) *guild {
	g := s.guilds[id]
	if g == nil {
		panic(fmt.Sprintf("discordtest: the server has no guild %q", id))
	}
	return g
}

func (s *Server) mustChannel(id string) *channel {
	c := s.channels[id]
	if c == nil {
		panic(fmt.Sprintf("discordtest: the server has no channel %q", id))
	}
	return c
}

// mustUser is the account with the id of u, which is made when there is none.
func (s *Server) mustUser(u User) *User {
	if known := s.users[u.ID]; known != nil {
		return known
	}
	if !isSnowflake(u.ID) {
		panic(fmt.Sprintf("discordtest: %q is no id of a user; make one with Person", u.ID))
	}
	s.users[u.ID] = &u
	return &u
}
