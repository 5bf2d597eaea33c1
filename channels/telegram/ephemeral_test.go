package telegram_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
)

// With the key ephemeral, only the person who sends a private command in a group sees it, its answer and
// the answer's further pages.
func TestPrivateCommandsAreForTheAskerAlone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel(func(cfg *telegram.Config) { cfg.Ephemeral = true })
	g.run(c)
	must(t, g.srv.WaitGroupCommands(deadline(t)))
	if menu, all := g.srv.GroupCommands(), g.srv.Commands(); !strings.Contains(menu, "is_ephemeral") || strings.Contains(all, "is_ephemeral") {
		t.Errorf("the menu of groups is %s, the other one %s", menu, all)
	}
	g.srv.NameTopic(forum, 7, "Plans")
	g.srv.Say(forum, ada, "/history", telegramtest.InTopic(7), telegramtest.Alone())
	g.srv.Say(forum, ada, "/history", telegramtest.InTopic(7), telegramtest.Alone())
	asked := g.wait(2)
	if asked[0].SourceID == asked[1].SourceID || asked[0].Key != "telegram:chat:-1002:topic:7" {
		t.Fatalf("accepted %+v", asked)
	}
	answer := conversation.Delivery{Address: asked[0].Address, Text: "What was said", Actions: []conversation.Action{{Label: "Older", Command: "/history 5 5"}}}
	must(t, deliverAll(deadline(t), c, answer))
	sent := g.srv.SentTo(forum.ID)
	if len(sent) != 1 || sent[0].For != ada.ID || sent[0].Topic != 7 {
		t.Fatalf("sent %+v", sent)
	}
	g.srv.Press(ada, sent[0].ID, "Older")
	page := conversation.Delivery{Address: g.wait(3)[2].Address, Text: "Earlier"}
	must(t, deliverAll(deadline(t), c, page))
	if sent = g.srv.SentTo(forum.ID); len(sent) != 1 || sent[0].Text != "Earlier" || sent[0].For != ada.ID {
		t.Fatalf("the next page: %+v", sent)
	}
	g.srv.Fail("editEphemeralMessageText", telegramtest.Verdict{Code: 400, Description: "message can't be edited"}, 1)
	must(t, deliverAll(deadline(t), c, page))
	if sent = g.srv.SentTo(forum.ID); len(sent) != 2 || sent[1].For != ada.ID {
		t.Fatalf("a page that can't take the place of the last: %+v", sent)
	}
}

// Telegram takes such an answer for 15 s. A later one is not posted for all instead.
func TestLatePrivateAnswerIsNotShownToAll(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel(func(cfg *telegram.Config) { cfg.Ephemeral = true })
	g.run(c)
	g.srv.Say(group, ada, "/history", telegramtest.Alone())
	in := g.wait(1)[0]
	g.srv.Fail("sendMessage", telegramtest.Verdict{Code: 400, Description: "not enough rights to send the ephemeral message"}, 1)
	must(t, deliverAll(deadline(t), c, conversation.Delivery{Address: in.Address, Text: "the secret", Actions: []conversation.Action{{Label: "the secret", Command: "/new"}}}))
	sent := g.srv.SentTo(group.ID)
	if len(sent) != 1 || sent[0].For != 0 || !strings.Contains(sent[0].Text, "send the command again") || len(sent[0].Buttons) != 0 {
		t.Fatalf("sent %+v", sent)
	}
}

// A model takes longer than that, so that an ephemeral message which is no command is not for the bot.
func TestOnlyCommandsCanBeForTheBotAlone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel(func(cfg *telegram.Config) { cfg.Ephemeral = true }))
	g.srv.Say(group, ada, "and what else?", telegramtest.Alone())
	sent, err := g.srv.WaitSent(deadline(t), 1)
	must(t, err)
	if sent[0].For != ada.ID || !strings.Contains(sent[0].Text, "Only commands") {
		t.Errorf("sent %+v", sent)
	}
	g.srv.Say(group, ada, "/new", telegramtest.Alone())
	if diff := cmp.Diff([]string{"/new"}, texts(g.wait(1))); diff != "" {
		t.Error(diff)
	}
}
