package telegram_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
)

func TestGroupTalkComesWithTheNextMessageToTheBot(t *testing.T) {
	t.Parallel()
	g, store := newPairing(t)
	g.store = store
	g.run(g.channel(func(cfg *telegram.Config) {
		cfg.Access, cfg.Allow, cfg.Context = "allowlist", []string{"42", "44"}, 3
	}))
	cid := telegramtest.User{ID: 44, FirstName: "Cid: x"}
	g.srv.Say(group, ada, "too long ago")
	g.srv.Say(group, ada, "Pizza\nor soup?")
	g.srv.Say(group, bob, "a stranger's word")
	g.srv.Say(group, cid, "", telegramtest.WithPhoto([]byte("x")))
	g.srv.Say(forum, ada, "elsewhere", telegramtest.InTopic(7))
	g.srv.Say(group, ada, strings.Repeat("x", 600))
	g.srv.Say(group, ada, "/new")
	g.srv.Say(group, ada, "@parley_bot what did we say?")
	g.srv.Say(group, ada, "@parley_bot and now?")
	var got []string
	for _, in := range g.wait(3) {
		got = append(got, in.Text+"|"+in.Overheard)
	}
	want := []string{
		"/new|",
		"what did we say?|Ada Lovelace: Pizza\n  or soup?\nCid x: [file photo-4.jpg]\nAda Lovelace: " + strings.Repeat("x", 500) + " …",
		"and now?|",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	g.waitLog("privacy mode hides group messages")
}

// Talk reads after an edit as it would if it had been written so: with the names of its files, and without
// what it replies to.
func TestEditedGroupTalkReadsAsWritten(t *testing.T) {
	t.Parallel()
	g, store := newPairing(t)
	g.store = store
	g.run(g.channel(func(cfg *telegram.Config) {
		cfg.Access, cfg.Allow, cfg.Context = "allowlist", []string{"42"}, 5
	}))
	pizza := g.srv.Say(group, ada, "Pizza?")
	reply := telegramtest.ReplyTo(pizza.MessageID)
	soup := g.srv.Say(group, ada, "Sup", reply)
	photo := g.srv.Say(group, ada, "this won", telegramtest.WithPhoto([]byte("x")))
	now := time.Now()
	g.srv.Edit(group, ada, soup.MessageID, "Soup", now, reply)
	g.srv.Edit(group, ada, photo.MessageID, "this one", now, telegramtest.WithPhoto([]byte("x")))
	g.srv.Say(group, ada, "@parley_bot what did we say?")
	want := "Ada Lovelace: Pizza?\nAda Lovelace: Soup\nAda Lovelace: this one\n  [file photo-3.jpg]"
	if diff := cmp.Diff(want, g.wait(1)[0].Overheard); diff != "" {
		t.Fatal(diff)
	}
}

func TestGroupTalkIsNotKeptByDefault(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.Bot.ReadsAll = true
	g.run(g.channel())
	g.srv.Say(group, ada, "just chatting")
	g.srv.Say(group, ada, "@parley_bot hi")
	if in := g.wait(1)[0]; in.Overheard != "" || g.logged("privacy mode") > 0 {
		t.Fatalf("overheard %q", in.Overheard)
	}
}

func TestEveryMessageOfAFreeChatIsAnswered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel(func(cfg *telegram.Config) { cfg.FreeChats = []string{"-1001", "-1002/7"} }))
	g.srv.Say(group, ada, "to nobody")
	g.srv.Say(group, ada, "/weather for another bot")
	g.srv.Say(group, ada, "/new@other_bot")
	g.srv.Say(forum, ada, "in a free topic", telegramtest.InTopic(7))
	g.srv.Say(forum, ada, "in another topic", telegramtest.InTopic(8))
	g.srv.Say(forum, ada, "@parley_bot there", telegramtest.InTopic(8))
	if diff := cmp.Diff([]string{"to nobody", "in a free topic", "there"}, texts(g.wait(3))); diff != "" {
		t.Fatal(diff)
	}
	for _, bad := range []string{"1001", "-1001/", "@club", "*", "-1001/x"} {
		cfg := g.config()
		cfg.FreeChats = []string{bad}
		if _, err := telegram.New(telegram.Deps{Config: cfg}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
