package discord

import (
	"testing"

	"parley/channels/discord/discordtest"
)

func TestIsAdminByOwnershipAndRoles(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home, other := g.srv.Guild("Home"), g.srv.Guild("Other")
	general := g.srv.Channel(home, "general")
	people := map[string]discordtest.User{}
	for _, who := range []string{"owner", "administrator", "manager", "moderator", "member", "admin elsewhere", "nobody"} {
		people[who] = g.srv.Person(who)
	}
	g.srv.SetOwner(home, people["owner"])
	g.srv.SetOwner(other, people["admin elsewhere"])
	join := func(who string, p discordtest.Permission) {
		role := g.srv.Role(home, who)
		g.srv.Grant(role, p)
		g.srv.Join(home, people[who], role)
	}
	join("administrator", discordtest.Administrator)
	join("manager", discordtest.ManageGuild)
	join("moderator", discordtest.ManageThreads)
	g.srv.Join(home, people["member"])
	thread := g.srv.Thread(general, people["member"], "Thread")
	c := g.channel()
	want := map[string]bool{"owner": true, "administrator": true, "manager": true}
	for who, user := range people {
		for _, to := range []address{{Channel: general.ID}, {Channel: thread.ID}, {Channel: "123", Parent: general.ID}} {
			if is, err := c.IsAdmin(deadline(t), to.String(), user.ID); err != nil || is != want[who] {
				t.Errorf("%s in %+v: %v, %v", who, to, is, err)
			}
		}
	}
	dm := g.srv.DM(people["owner"])
	if is, err := c.IsAdmin(deadline(t), address{Channel: dm.ID}.String(), people["owner"].ID); err != nil || is {
		t.Errorf("in a DM: %v, %v", is, err)
	}
	everyone := discordtest.Role{ID: other.ID, Guild: other.ID}
	g.srv.Grant(everyone, discordtest.Administrator)
	g.srv.Join(other, people["member"])
	if is, err := c.IsAdmin(deadline(t), address{Channel: g.srv.Channel(other, "any").ID}.String(), people["member"].ID); err != nil || !is {
		t.Errorf("where everyone is: %v, %v", is, err)
	}
}

func TestIsAdminFailsWhileDiscordFails(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	ann := g.srv.Person("Ann")
	general := g.srv.Channel(home, "general")
	g.srv.SetOwner(home, ann)
	c := g.channel()
	to := address{Channel: general.ID}.String()
	g.srv.Deny(general, discordtest.ViewChannel)
	if is, err := c.IsAdmin(deadline(t), to, ann.ID); err == nil || is {
		t.Errorf("without access: %v, %v", is, err)
	}
	g.srv.Allow(general, discordtest.ViewChannel)
	if is, err := c.IsAdmin(deadline(t), to, ann.ID); err != nil || !is {
		t.Errorf("afterwards: %v, %v", is, err)
	}
}
