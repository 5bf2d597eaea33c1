package telegram_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/pairing"
)

// deliverAll sends all parts of a reply.
func deliverAll(ctx context.Context, c *telegram.Channel, d conversation.Delivery) error {
	for _, part := range c.Split(d) {
		if _, err := c.Send(ctx, d, part); err != nil {
			return err
		}
	}
	return nil
}

func TestButtonsSendCommandsAndTheReplyReplacesTheirMessage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	g.run(c)
	g.srv.AddChat(forum, 7)
	list := conversation.Delivery{Address: `{"chat":-1002,"topic":7}`, Text: "Page 1", Actions: []conversation.Action{
		{Label: "Older", Command: "/history list 2"}, {Label: "Older", Command: "/history list 2"}, {Label: "", Command: "/new"},
		{Label: "Long", Command: "/resume " + strings.Repeat("x", 60)}, {Label: "Delete", Command: "/clear yes"},
	}}
	must(t, deliverAll(deadline(t), c, list))
	sent := g.srv.SentTo(-1002)[0]
	want := []telegramtest.Button{{Text: "Older", Data: "/history list 2"}, {Text: "Delete", Data: "/clear yes"}}
	if diff := cmp.Diff(want, sent.Buttons); diff != "" {
		t.Fatal(diff)
	}

	g.srv.Press(bob, sent.ID, "Older")
	in := g.wait(1)[0]
	command, ok := in.Command()
	if in.Key != "telegram:chat:-1002:topic:7" || in.Sender.ID != "43" || !ok || command.Name != "history" {
		t.Fatalf("accepted %+v", in)
	}
	must(t, g.srv.WaitCalls(deadline(t), "answerCallbackQuery", 1))
	page := conversation.Delivery{Address: in.Address, Text: "Page 2"}
	must(t, deliverAll(deadline(t), c, page))
	must(t, deliverAll(deadline(t), c, page)) // as after a crash before the mark
	got := g.srv.SentTo(-1002)
	if len(got) != 1 || got[0].Text != "Page 2" || len(got[0].Buttons) != 0 || got[0].Edits != 1 {
		t.Fatalf("sent %+v", got)
	}

	g.srv.Delete(-1002, sent.ID)
	must(t, deliverAll(deadline(t), c, page))
	if got := g.srv.SentTo(-1002); len(got) != 1 || got[0].Topic != 7 || got[0].ID == sent.ID {
		t.Fatalf("a reply to a deleted list: %+v", got)
	}
}

func TestButtonsRefuseStrangersAndExpire(t *testing.T) {
	t.Parallel()
	g, _ := newPairing(t)
	c := g.channel(func(cfg *telegram.Config) { cfg.Access, cfg.Allow = "allowlist", []string{"42"} })
	g.run(c)
	g.srv.AddChat(group)
	must(t, deliverAll(deadline(t), c, conversation.Delivery{Address: `{"chat":-1001}`, Text: "Sure?", Actions: []conversation.Action{{Label: "Yes", Command: "/clear yes"}}}))
	g.srv.Press(bob, g.srv.SentTo(-1001)[0].ID, "Yes")
	g.srv.PressOld(ada, group, 1, "/clear yes")
	g.srv.Say(telegramtest.Private(ada), ada, "end")
	if diff := cmp.Diff([]string{"end"}, texts(g.wait(1))); diff != "" {
		t.Fatal(diff)
	}
	must(t, g.srv.WaitCalls(deadline(t), "answerCallbackQuery", 2))
	var told []string
	for _, call := range g.srv.Log() {
		if call.Method == "answerCallbackQuery" {
			told = append(told, call.Params["text"])
		}
	}
	if len(told) != 2 || !strings.Contains(strings.Join(told, " "), "not allowed") || !strings.Contains(strings.Join(told, " "), "too old") {
		t.Errorf("told %q", told)
	}
}

func TestMembershipIsLoggedAndTheBotIntroducesItselfWhereAllowed(t *testing.T) {
	t.Parallel()
	g, store := newPairing(t)
	g.store = store
	g.run(g.channel(func(cfg *telegram.Config) { cfg.Access, cfg.Allow = "allowlist", []string{"42"} }))
	g.srv.SetMember(group, bob, true)
	g.srv.SetMember(group, bob, false)
	g.srv.SetMember(forum, ada, true)
	sent, err := g.srv.WaitSent(deadline(t), 1)
	must(t, err)
	if sent[0].Chat != forum.ID || !strings.Contains(sent[0].Text, "@parley_bot") {
		t.Fatalf("sent %+v", sent)
	}
	must(t, g.srv.WaitConfirmed(deadline(t)))
	if g.logged("added to a group") != 2 || g.logged("removed from a group") != 1 || len(g.srv.Sent()) != 1 {
		t.Errorf("log:\n%s", g.log.String())
	}
	known := telegramtest.Group(-1009, "Family") // since before the database knew of groups
	g.srv.Say(known, bob, "just chatting")
	must(t, g.srv.WaitConfirmed(deadline(t)))
	list, err := bots.New(store).Groups(t.Context())
	must(t, err)
	var got []string
	for _, stood := range list {
		got = append(got, fmt.Sprintf("%s %s %s by %q, %d lacking, dated %v", stood.ID, stood.Name, stood.State, stood.ByName, len(stood.Lacks), !stood.Since.IsZero()))
	}
	want := []string{`-1009 Family member by "", 0 lacking, dated false`, `-1002 Project member by "Ada Lovelace", 1 lacking, dated true`, `-1001 Friends removed by "Bob", 1 lacking, dated true`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A question from before pairing is answered after it.
func TestFirstQuestionIsAnsweredAfterPairing(t *testing.T) {
	t.Parallel()
	g, operator := newPairing(t)
	g.run(g.channel(withPairing))
	private := telegramtest.Private(bob)
	g.srv.Say(private, bob, "/start abc")
	g.srv.Say(private, bob, "When does the mill close?")
	code := g.codeTo(43, 1)
	must(t, g.srv.WaitConfirmed(deadline(t)))
	_, err := pairing.New(operator).Approve(t.Context(), code)
	must(t, err)
	g.srv.Say(private, bob, "/start")
	g.srv.Say(private, bob, "thanks")
	if diff := cmp.Diff([]string{"/start", "When does the mill close?", "thanks"}, texts(g.wait(3))); diff != "" {
		t.Fatal(diff)
	}
}
