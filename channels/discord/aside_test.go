package discord

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/access"
	"parley/channels/discord/discordtest"
	"parley/conversation/grouptalk"
)

func TestGroupTalkOfAChannelComesWithTheNextMessageToTheBot(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	general, garden := g.srv.Channel(home, "general"), g.srv.Channel(home, "garden")
	ann, ben, cid := g.srv.Person("Ann"), g.srv.Person("Ben"), g.srv.Person("Cid")
	g.cfg.Access, g.cfg.Allow, g.cfg.Context, g.cfg.AutoThread = access.Allowlist, []string{ann.ID, ben.ID}, 3, true
	g.run()
	g.srv.Say(general, ann, "too long ago")
	g.srv.Say(general, ann, "Pizza\nor soup?")
	g.srv.Say(general, cid, "a stranger's word")
	g.srv.Say(general, ben, "", discordtest.Attach(discordtest.File{Name: "menu.png", ContentType: "image/png", Data: []byte("x")}))
	g.srv.Say(garden, ann, "elsewhere")
	gone := g.srv.Say(general, ben, "I take this back")
	soup := g.srv.Say(general, ben, "sup")
	g.srv.Edit(soup, "soup")
	g.srv.Delete(gone)
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" what did we say?")
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" and in this thread?")
	want := "Ann: Pizza\n  or soup?\nBen: [file menu.png]\nBen: soup"
	for _, in := range g.wait(2) {
		if diff := cmp.Diff(want, in.Overheard); diff != "" {
			t.Error(in.Text, diff)
		}
	}
	found, total, err := grouptalk.New(g.store).Find(t.Context(), channelKey(garden.ID), "", 0, 10)
	if err != nil || total != 1 || found[0].Name != "Ann" || found[0].Text != "elsewhere" {
		t.Errorf("%v %v", found, err)
	}
}

func TestGroupTalkOfAChannelIsNotKeptByDefault(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general, ann := g.srv.Channel(g.srv.Guild("Home"), "general"), g.srv.Person("Ann")
	g.run()
	g.srv.Say(general, ann, "just chatting")
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" hi")
	in := g.wait(1)[0]
	_, total, err := grouptalk.New(g.store).Find(t.Context(), in.Key, "", 0, 10)
	if err != nil || total != 0 || in.Overheard != "" {
		t.Errorf("kept %d, %v, shown %q", total, err, in.Overheard)
	}
}
