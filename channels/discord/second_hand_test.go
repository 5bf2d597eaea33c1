package discord

import (
	"testing"

	"parley/channels/discord/discordtest"
)

// Forwards and messages of other bots and webhooks are never commands. A person's message is, also as a
// reply.
func TestForwardsAndBotMessagesAreNeverCommands(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann, friend := g.srv.Person("Ann"), g.srv.OtherBot("Friend")
	dm := g.srv.DM(ann)
	g.cfg.AllowBots = []string{friend.ID}
	g.cfg.FreeChannels = []string{general.ID}
	g.run()
	elsewhere := g.srv.Say(g.srv.Channel(g.srv.Guild("Elsewhere"), "news"), ann, "/clear yes")
	g.srv.Say(dm, ann, "", discordtest.Forward(elsewhere))
	g.srv.Say(dm, ann, "/stop", discordtest.Forward(elsewhere)) // not as Discord does it today
	g.srv.Say(general, friend, "/clear yes")
	said := g.srv.Say(general, ann, "/status")
	g.srv.Say(general, ann, "/stop", discordtest.ReplyTo(said))
	g.srv.Say(general, friend, "/stop", discordtest.ReplyTo(said))
	want := map[string]bool{
		"[forwarded]\n/clear yes": false, "/stop\n[forwarded]\n/clear yes": false, "/clear yes": false,
		"/status": true, "/stop": true, "[in reply to Ann:]\n> /status\n\n/stop": false,
	}
	for _, in := range g.wait(len(want)) {
		command, known := want[in.Text]
		if _, is := in.Command(); !known || is != command {
			t.Errorf("%q is a command: %v", in.Text, is)
		}
	}
}

// A forward opens a thread like any other message; a command opens none.
func TestForwardedCommandOpensAThread(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	friend := g.srv.OtherBot("Friend")
	g.cfg.AllowBots, g.cfg.AutoThread = []string{friend.ID}, true
	g.run()
	g.srv.Say(general, friend, discordtest.Bot.Mention()+" /new")
	g.srv.Say(general, g.srv.Person("Ann"), discordtest.Bot.Mention()+" /new")
	got := g.wait(2)
	if got[0].Key == channelKey(general.ID) || got[1].Key != channelKey(general.ID) {
		t.Errorf("keys %q", keys(got))
	}
}
