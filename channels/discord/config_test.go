package discord

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"parley/channels/discord/discordtest"
)

func TestInvalidConfigurationIsExplained(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"token":         func(c *Config) { c.Token = "" },
		"api_url":       func(c *Config) { c.APIURL = "discord" },
		"access":        func(c *Config) { c.Access = "closed" },
		"allow":         func(c *Config) { c.Allow = []string{"ada"} },
		"guilds":        func(c *Config) { c.Guilds = []string{"home"} },
		"free_channels": func(c *Config) { c.FreeChannels = []string{"*"} },
		"allow_bots":    func(c *Config) { c.AllowBots = []string{"@bot"} },
		"shard_count":   func(c *Config) { c.ShardID = 1 },
		"0 to 1":        func(c *Config) { c.ShardID, c.ShardCount = 2, 2 },
	} {
		cfg := DefaultConfig()
		cfg.Token = "secret-token"
		change(&cfg)
		_, err := New(Deps{Config: cfg, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestInviteHasThePermissionsThatTheBotNeeds(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	link, err := Invite(t.Context(), g.cfg, "")
	must(t, err)
	want := "https://discord.com/oauth2/authorize?client_id=" + discordtest.ApplicationID + "&permissions=309237746688&scope=bot+applications.commands"
	if link != want {
		t.Errorf("got %s, want %s", link, want)
	}
	g.cfg.Token = "wrong"
	if _, err := Invite(t.Context(), g.cfg, "config.toml:12"); err == nil || !strings.Contains(err.Error(), "rejected the bot token; check it (config.toml:12)") {
		t.Errorf("got %v", err)
	}
}

// The bot can do all that it needs to with the link's permissions alone.
func TestTheInvitesPermissionsSuffice(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	g.srv.Deny(general, discordtest.All&^discordtest.Permission(Permissions))
	g.cfg.AutoThread = true
	ann := g.srv.Person("Ann")
	r := g.run()
	said := g.srv.Say(general, ann, discordtest.Bot.Mention()+" write a book")
	in := g.wait(1)[0]
	r.Preview(in.Key, in.ID, in.Address, "Once")
	r.reply(t, in, strings.Repeat("A sentence of some words. ", 1500))
	thread, _ := g.srv.Place(said.ID)
	if sent := g.srv.SentTo(thread); len(sent) != 1 || len(sent[0].Files) != 1 {
		t.Fatalf("%+v", sent)
	}
	r.SetTitle(in.Address, "A book")
	must(t, g.srv.Wait(deadline(t), "the name", func() bool { p, _ := g.srv.Place(said.ID); return p.Name == "A book" }))
}

func TestSnowflakesAreTimes(t *testing.T) {
	t.Parallel()
	// https://discord.com/developers/docs/reference#snowflakes
	if at := bornAt("175928847299117063"); !at.Equal(time.UnixMilli(1462015105796)) {
		t.Errorf("%v", at)
	}
	if id := firstAt(time.UnixMilli(1462015105796)); id != 175928847299117063>>22<<22 {
		t.Errorf("%d", id)
	}
}
