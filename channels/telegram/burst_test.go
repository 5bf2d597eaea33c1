package telegram_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram/telegramtest"
)

// newStoredGateway returns a gateway that also stores the accepted messages.
func newStoredGateway(t *testing.T) *gateway {
	g, store := newPairing(t)
	g.store = store
	return g
}

func TestAlbumWithOneMentionIsForTheBot(t *testing.T) {
	t.Parallel()
	g := newStoredGateway(t)
	photo := func(n int, text, album string) {
		g.srv.Say(group, ada, text, telegramtest.WithPhoto(fmt.Append(nil, n)), telegramtest.InAlbum(album))
	}
	stop := g.run(g.channel())
	photo(1, "", "a")
	photo(2, "", "a")
	photo(3, "@parley_bot which one?", "a")
	photo(4, "", "a")
	photo(5, "not for the bot", "b")
	g.wait(4)
	must(t, stop())
	photo(6, "", "a") // the rest comes to the next process
	photo(7, "", "b")
	g.run(g.channel())
	got := g.wait(5)
	want := []string{"", "", "which one?", "", ""}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Fatal(diff)
	}
	for _, in := range got {
		if in.Album != "-1001:a" || in.Quiet == 0 || len(in.Attachments) != 1 {
			t.Errorf("%+v", in)
		}
	}
}

// In a group, messages that are forwarded with a comment to the bot are for the bot, too.
func TestMessagesForwardedWithACommentAreForTheBot(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	at := time.Now()
	say := func(who telegramtest.User, text string, after time.Duration, opts ...telegramtest.Option) {
		g.srv.Say(group, who, text, append(opts, telegramtest.At(at.Add(after)))...)
	}
	forwarded := telegramtest.ForwardedFrom(bob)
	say(ada, "before", 0, forwarded)
	say(ada, "@parley_bot what do you say to these?", 0)
	say(ada, "one", 0, forwarded)
	say(ada, "two", time.Second, forwarded)
	say(ada, "my own words", time.Second)
	say(bob, "from somebody else", time.Second, forwarded)
	say(ada, "later", 3*time.Second, forwarded)
	say(ada, "@parley_bot end", 9*time.Second)
	want := []string{"what do you say to these?", "[forwarded from Bob]\none", "[forwarded from Bob]\ntwo", "end"}
	if diff := cmp.Diff(want, texts(g.wait(4))); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyPicturesAndForwardsWaitForMore(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	private := telegramtest.Private(ada)
	g.srv.Say(private, ada, "a complete message")
	g.srv.Say(private, ada, "a photo", telegramtest.WithPhoto([]byte("x")))
	g.srv.Say(private, ada, "/new")
	g.srv.Say(private, ada, "news", telegramtest.ForwardedFrom(bob))
	g.srv.Say(private, ada, "", telegramtest.WithPhoto([]byte("x")), telegramtest.InAlbum("a"))
	g.srv.Say(private, ada, strings.Repeat("x", 4096))
	g.srv.Say(group, ada, "@parley_bot in a group")
	g.srv.Say(group, ada, "/new")
	var quiet, joins []bool
	for _, in := range g.wait(8) {
		quiet, joins = append(quiet, in.Quiet == 300*time.Millisecond), append(joins, in.Joins == 300*time.Millisecond)
	}
	if diff := cmp.Diff([]bool{false, false, false, true, true, true, true, false}, quiet); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]bool{true, true, false, true, true, true, true, false}, joins); diff != "" {
		t.Error(diff)
	}
}

func TestEditsAreStored(t *testing.T) {
	t.Parallel()
	g := newStoredGateway(t)
	g.run(g.channel())
	now := time.Now()
	private := telegramtest.Private(ada)
	mine := g.srv.Say(private, ada, "first")
	chat := g.srv.Say(group, ada, "just chatting")
	g.srv.Edit(private, ada, mine.MessageID, "second", now)
	g.srv.Edit(group, ada, chat.MessageID, "still chatting", now)
	g.srv.Edit(group, ada, chat.MessageID, "@parley_bot now it is for you", now)
	g.srv.Edit(private, bob, 900, "/clear yes", now) // of a message from before the bot was there
	g.srv.Edit(private, ada, mine.MessageID, "", now, with("location", `{"latitude":1,"longitude":2,"live_period":60}`))
	g.srv.Say(private, ada, "end")
	got := g.wait(4)
	if diff := cmp.Diff([]string{"first", "now it is for you", "/clear yes", "end"}, texts(got)); diff != "" {
		t.Fatal(diff)
	}
	if _, command := got[2].Command(); command {
		t.Error("an edit made a command")
	}
	want := []string{"telegram:chat:42 42:1: second", " -1001:1: still chatting", " -1001:1: now it is for you", " 42:900: /clear yes"}
	if diff := cmp.Diff(want, g.edits); diff != "" {
		t.Fatal(diff)
	}
	inbox, err := g.store.Inbox(t.Context(), "telegram:chat:42", 1)
	if must(t, err); inbox[0].Text != "second" {
		t.Errorf("the store has %q", inbox[0].Text)
	}
}
