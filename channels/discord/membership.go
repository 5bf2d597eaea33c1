package discord

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"

	"parley/conversation/bots"
	"parley/conversation/retry"
	"parley/plaintext"
)

// Groups stores which servers the bot is in; bots.Bots is one.
type Groups interface {
	SetGroup(ctx context.Context, g bots.Group) (changed bool, err error)
	Groups(ctx context.Context) ([]bots.Group, error)
}

// recently is for how long after it was added the log says so of a server: at a start all
// of them are described.
const recently = time.Hour

// joined stores that the bot is in a server.
func (in *intake) joined(ctx context.Context, g guild) {
	at, err := time.Parse(time.RFC3339, g.JoinedAt)
	if err != nil {
		at = time.Time{}
	}
	server := bots.Group{Bot: in.Account(), ID: g.ID, Name: plaintext.OneLine(g.Name), State: bots.Member, Since: at, Lacks: in.lacks(g)}
	if in.setGroup(ctx, server) && time.Since(at) < recently {
		in.Log.Info("added to a server", "server", g.ID, "name", server.Name, "lacks", server.Lacks)
		in.introduce(ctx, g)
	}
}

// introductionTimeout is for how long an introduction is tried.
const introductionTimeout = 30 * time.Second

// introduce says in a server's system channel how to talk to the bot, where the server,
// the channel or the server's owner may: Discord does not tell who added the bot. A
// channel in which the bot may not write stays without. It does not wait for Discord.
func (in *intake) introduce(ctx context.Context, g guild) {
	p := in.world.places[g.System]
	if p == nil {
		return
	}
	known := false
	err := retry.Persist(ctx, in.Log, "see who may talk", func() (err error) {
		known, err = in.access.Knows(ctx, visitor(user{ID: g.Owner}, nil, p))
		return err
	})
	if err != nil || !known {
		return
	}
	m := newOutgoing("Hello! Mention me, or reply to one of my messages, and I answer here. /help lists what I can do.")
	m.Nonce, m.Enforce = address{Source: g.ID}.nonce(0), true
	in.goHelper(func() {
		ctx, cancel := context.WithTimeout(ctx, introductionTimeout)
		defer cancel()
		if _, err := in.create(ctx, p.id, m); err != nil {
			in.Log.Debug("introduction not sent", "server", g.ID, "error", err)
		}
	})
}

// left stores that the bot was removed from a server.
func (in *intake) left(ctx context.Context, id string) {
	if in.setGroup(ctx, bots.Group{Bot: in.Account(), ID: id, State: bots.Removed, Since: time.Now()}) {
		in.Log.Info("removed from a server", "server", id, "name", in.world.guild(id).name)
	}
}

// leftMeanwhile stores from which servers of a shard the bot was removed while it was not
// connected: READY does not name them.
func (in *intake) leftMeanwhile(ctx context.Context, named []guild, shard int) {
	if in.Groups == nil {
		return
	}
	var list []bots.Group
	err := retry.Persist(ctx, in.Log, "read the servers of the bot", func() (err error) {
		list, err = in.Groups.Groups(ctx)
		return err
	})
	if err != nil {
		return
	}
	for _, g := range list {
		here := g.Bot == in.Account() && (&place{guild: g.ID}).shard(in.shards) == shard
		if here && g.State == bots.Member && !slices.ContainsFunc(named, func(n guild) bool { return n.ID == g.ID }) {
			in.left(ctx, g.ID)
		}
	}
}

func (in *intake) setGroup(ctx context.Context, g bots.Group) (changed bool) {
	if in.Groups == nil {
		return false
	}
	err := retry.Persist(ctx, in.Log, "store a server of the bot", func() (err error) {
		changed, err = in.Groups.SetGroup(ctx, g)
		return err
	})
	return changed && err == nil
}

// needed are the permissions that the bot asks for, as Discord names them.
var needed = []struct {
	name string
	bit  int64
}{
	{"View Channels", discordgo.PermissionViewChannel},
	{"Send Messages", discordgo.PermissionSendMessages},
	{"Send Messages in Threads", discordgo.PermissionSendMessagesInThreads},
	{"Create Public Threads", discordgo.PermissionCreatePublicThreads},
	{"Attach Files", discordgo.PermissionAttachFiles},
	{"Read Message History", discordgo.PermissionReadMessageHistory},
}

// lacks returns which of the needed permissions the bot's roles do not give it in a
// server, nil where Discord does not tell. Single channels may differ.
func (in *intake) lacks(g guild) []string {
	i := slices.IndexFunc(g.Members, func(m member) bool { return m.User != nil && m.User.ID == in.me.ID })
	if i < 0 {
		return nil
	}
	var has int64
	for _, r := range g.Roles {
		if r.ID == g.ID || slices.Contains(g.Members[i].Roles, r.ID) { // everybody has the role with the server's id
			bits, err := strconv.ParseInt(r.Permissions, 10, 64)
			if err != nil {
				return nil
			}
			has |= bits
		}
	}
	lacks := []string{}
	for _, p := range needed {
		if has&(p.bit|discordgo.PermissionAdministrator) == 0 {
			lacks = append(lacks, p.name)
		}
	}
	return lacks
}
