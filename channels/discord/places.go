package discord

import (
	"fmt"

	"parley/conversation"
	"parley/plaintext"
)

// place is a channel, a thread or a DM, as Discord described it.
type place struct {
	id     string
	guild  string // "" for a DM
	parent string // ID of the channel in which a thread is
	name   string
	kind   int
	owner  string // ID of the user who opened a thread
	newest uint64 // id of the newest message when the connection began; 0 = unknown
}

func newPlace(c channel) *place {
	return &place{id: c.ID, guild: c.GuildID, parent: c.ParentID, name: plaintext.OneLine(c.Name), kind: c.Type, owner: c.OwnerID, newest: number(c.LastMessageID)}
}

func (p *place) isDM() bool { return p.kind == typeDM }

func (p *place) isThread() bool {
	return p.kind == typeAnnouncementThread || p.kind == typePublicThread || p.kind == typePrivateThread
}

// isForum reports whether the place has posts, which are threads, and no
// messages.
func (p *place) isForum() bool { return p.kind == typeForum || p.kind == typeMedia }

// takesThreads reports whether a thread can be opened on a message of the place.
func (p *place) takesThreads() bool { return p.kind == typeText || p.kind == typeAnnouncement }

// shard returns the number of the shard that receives the events of the place:
// https://discord.com/developers/docs/events/gateway#sharding-sharding-formula
func (p *place) shard(count int) int { return int(number(p.guild) >> 22 % uint64(count)) }

// world holds what the bot knows of its servers. Only the intake's goroutine touches it.
type world struct {
	guilds map[string]*server
	places map[string]*place
}

// server is a server, which Discord's API calls guild.
type server struct {
	name    string
	roles   map[string]string // names by id
	botRole string            // the role that stands for the bot itself, "" when there is none
}

func newWorld() *world { return &world{guilds: map[string]*server{}, places: map[string]*place{}} }

func (w *world) addGuild(g guild, bot string) {
	s := &server{name: plaintext.OneLine(g.Name), roles: map[string]string{}}
	for _, r := range g.Roles {
		s.roles[r.ID] = plaintext.OneLine(r.Name)
		if bot != "" && r.Tags.BotID == bot {
			s.botRole = r.ID
		}
	}
	w.guilds[g.ID] = s
	w.addAll(g.ID, g.Channels)
	w.addAll(g.ID, g.Threads)
}

func (w *world) addAll(guild string, list []channel) {
	for _, c := range list {
		c.GuildID = guild
		w.places[c.ID] = newPlace(c)
	}
}

func (w *world) removeGuild(id string) {
	delete(w.guilds, id)
	for _, p := range w.places {
		if p.guild == id {
			delete(w.places, p.id)
		}
	}
}

// guild returns a server, an empty one where it is not known.
func (w *world) guild(id string) *server {
	if s := w.guilds[id]; s != nil {
		return s
	}
	return &server{}
}

// describe returns the name of a place for people.
func (w *world) describe(p *place, with conversation.Sender) string {
	in := ""
	if s := w.guilds[p.guild]; s != nil && s.name != "" {
		in = " of " + s.name
	}
	parent := w.places[p.parent]
	switch {
	case p.isDM():
		return "a private chat with " + with.Name
	case p.isThread() && parent != nil:
		return fmt.Sprintf("the thread %q in #%s%s", p.name, parent.name, in)
	case p.isThread():
		return fmt.Sprintf("the thread %q%s", p.name, in)
	case p.name == "":
		return "a channel" + in
	}
	return "the channel #" + p.name + in
}
