package discord

import (
	"testing"

	"parley/channels/discord/discordtest"
	"parley/conversation"
)

func (g *gateway) waiting(key conversation.Key) []conversation.Inbound {
	g.t.Helper()
	turn, err := g.store.Begin(g.t.Context(), key, 1000)
	must(g.t, err)
	return turn.Waiting
}

func TestAnEditBeforeTheAnswerChangesTheQuestion(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	first := g.srv.Say(dm, ann, "what is 1+1?")
	second := g.srv.Say(dm, ann, "and this I take back")
	third := g.srv.Say(dm, ann, "and this too")
	g.srv.Edit(first, "what is 1+2?")
	g.srv.Delete(second, third)
	g.until("both changes", func() bool { return len(g.told) == 3 })
	left := g.waiting(dmKey(ann.ID))
	if len(left) != 1 || left[0].Text != "what is 1+2?" {
		t.Fatalf("%q wait", texts(left))
	}
	for _, key := range g.told {
		if key != dmKey(ann.ID) {
			t.Errorf("%q was told", key)
		}
	}
}

func TestEditThatAddsAMentionIsAnswered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run()
	ann, general := g.srv.Person("Ann"), g.srv.Channel(g.srv.Guild("Home"), "general")
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" hi")
	g.wait(1)
	said := g.srv.Say(general, ann, "what is 1+1?")
	g.srv.Edit(said, discordtest.Bot.Mention()+" /new what is 1+1?")
	g.srv.Edit(said, discordtest.Bot.Mention()+" what is 1+1?")
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" thanks")
	if got := g.wait(3); got[1].Text != "/new what is 1+1?" || !got[1].NeverCommand {
		t.Fatalf("%+v", got)
	}
}

func TestPreviewOfALinkIsNoEdit(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	said := g.srv.Say(dm, ann, "see https://example.org")
	g.wait(1)
	g.srv.ThreadOn(said, ann, "a thread changes the message, and nobody edits it")
	g.srv.Say(dm, ann, "end")
	g.wait(2)
	if len(g.told) != 0 {
		t.Errorf("an edit was reported")
	}
}
