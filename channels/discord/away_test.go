package discord

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/discord/discordtest"
	"parley/internal/waittest"
)

func TestMissedMessagesAreAnsweredOnceInOrder(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	general, other := g.srv.Channel(home, "general"), g.srv.Channel(home, "other")
	ann := g.srv.Person("Ann")
	thread := g.srv.Thread(general, ann, "Holiday")
	dm := g.srv.DM(ann)
	r := g.run()
	me := discordtest.Bot.Mention()
	g.srv.Say(dm, ann, "dm 0")
	g.srv.Say(thread, ann, me+" thread 0")
	g.srv.Say(general, ann, me+" general 0")
	g.wait(3)
	must(t, r.stop())

	for i := range 150 { // more than a page
		g.srv.Say(dm, ann, fmt.Sprint("dm ", i+1))
	}
	g.srv.Say(thread, ann, "thread 1")
	g.srv.Say(general, ann, "not to the bot")
	g.srv.Say(general, ann, me+" general 1")
	g.srv.Say(other, ann, me+" where it never was")
	deleted := g.srv.Say(dm, ann, "taken back")
	g.srv.Delete(deleted)

	g.run()
	g.srv.Say(dm, ann, "dm 151") // its event comes while the missed messages are fetched
	g.srv.Say(thread, ann, "thread 2")
	got := g.wait(3 + 151 + 2 + 1)
	for name, key := range map[string]any{"dm": dmKey(ann.ID), "thread": threadKey(thread.ID), "general": channelKey(general.ID)} {
		var said, want []string
		for _, in := range got {
			if in.Key == key {
				said = append(said, in.Text)
				want = append(want, fmt.Sprint(name, " ", len(want)))
			}
		}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Error(diff)
		}
	}
	for _, in := range got {
		if in.Key == threadKey(thread.ID) && in.Title != "Holiday" || in.Key == dmKey(ann.ID) && in.Group {
			t.Errorf("what was fetched is less than what is told: %+v", in)
		}
	}
}

// All missed messages are taken before new ones, however many there are, and also if the
// gateway is stopped in between.
func TestAllMissedMessagesComeBeforeNewOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it reads thousands of messages")
	}
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	must(t, g.accept(t.Context(), cursorsAt(dm, "1")))
	var want []string
	say := func() {
		want = append(want, fmt.Sprint("dm ", len(want)))
		g.srv.Say(dm, ann, want[len(want)-1])
	}
	for range 1250 {
		say()
	}
	const listing = "GET /channels/{channel}/messages"
	never, _ := waittest.Gate(t)
	g.srv.Fail(listing, discordtest.Verdict{}, 3)
	g.srv.Fail(listing, discordtest.Held(never), 1)
	r := g.run()
	must(t, g.srv.WaitCalls(deadline(t), listing, 4))
	say() // while the fourth page is fetched
	must(t, r.stop())
	if n := len(g.inbounds()); n > 3*pageSize {
		t.Fatalf("%d messages were accepted, of which only %d were fetched", n, 3*pageSize)
	}
	released, release := waittest.Gate(t)
	g.srv.Fail(listing, discordtest.Held(released), 1)
	g.run()
	must(t, g.srv.WaitCalls(deadline(t), listing, 5))
	say() // its event comes while the missed messages are fetched
	release()
	if diff := cmp.Diff(want, texts(g.wait(len(want)))); diff != "" {
		t.Error(diff)
	}
}

func TestOldMissedMessagesAreNotTaken(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	now := time.Now()
	g.srv.Say(dm, ann, "two days ago", discordtest.At(now.Add(-48*time.Hour)))
	g.srv.Say(dm, ann, "an hour ago", discordtest.At(now.Add(-time.Hour)))
	must(t, g.accept(t.Context(), cursorsAt(dm, "1")))
	g.run()
	if got := g.wait(1); got[0].Text != "an hour ago" {
		t.Errorf("%q", got[0].Text)
	}
}

func TestCatchUpCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.cfg.CatchUp = 0
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "an hour ago", discordtest.At(time.Now().Add(-time.Hour)))
	must(t, g.accept(t.Context(), cursorsAt(dm, "1")))
	g.run()
	g.srv.Say(dm, ann, "now")
	if got := g.wait(1); got[0].Text != "now" {
		t.Errorf("%q", got[0].Text)
	}
	if n := g.srv.Calls("GET /channels/{channel}/messages"); n != 0 {
		t.Errorf("%d listings", n)
	}
}

// When the messages of one place can't be fetched, the other places do not wait.
func TestSlowCatchUpOfOnePlaceDelaysNoOther(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann, bob := g.srv.Person("Ann"), g.srv.Person("Bob")
	slow, quick := g.srv.DM(ann), g.srv.DM(bob)
	must(t, g.accept(t.Context(), cursorsAt(slow, "1")))
	g.srv.Say(slow, ann, "first")
	released, release := waittest.Gate(t)
	g.srv.Fail("GET /channels/{channel}/messages", discordtest.Held(released), 1)
	g.run()
	must(t, g.srv.WaitCalls(deadline(t), "GET /channels/{channel}/messages", 1))
	g.srv.Say(slow, ann, "second")
	g.srv.Say(quick, bob, "I am quick")
	g.wait(1)
	release()
	if diff := cmp.Diff([]string{"I am quick", "first", "second"}, texts(g.wait(3))); diff != "" {
		t.Error(diff)
	}
}

func TestCatchUpIsRetried(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	must(t, g.accept(t.Context(), cursorsAt(dm, "1")))
	g.srv.Say(dm, ann, "missed")
	g.srv.Fail("GET /channels/{channel}", discordtest.ServerError(), 1)
	g.srv.Fail("GET /channels/{channel}/messages", discordtest.TooMany(time.Millisecond), 1)
	g.run()
	g.wait(1)
}

// While Discord refuses the token, no message is lost, and the cursor stays where it is.
func TestBrieflyRefusedTokenLosesNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	must(t, g.accept(t.Context(), cursorsAt(general, "1")))
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" missed")
	g.srv.Fail("GET /channels/{channel}/messages", discordtest.Unauthorized, 1)
	g.run()
	must(t, g.srv.WaitCalls(deadline(t), "GET /channels/{channel}/messages", 1))
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" live")
	if diff := cmp.Diff([]string{"missed", "live"}, texts(g.wait(2))); diff != "" {
		t.Error(diff)
	}
}

func TestMessagesWaitForTheStore(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.run()
	g.note(func() { g.refuse = errRefused })
	g.srv.Say(dm, ann, "one")
	g.srv.Say(dm, ann, "two")
	g.note(func() { g.refuse = nil })
	if diff := cmp.Diff([]string{"one", "two"}, texts(g.wait(2))); diff != "" {
		t.Error(diff)
	}
}

func TestCatchUpSkipsAPlaceThatIsGone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	must(t, g.accept(t.Context(), slices.Concat(cursorsAt(discordtest.Channel{ID: "99"}, "1"), cursorsAt(g.srv.DM(ann), "1"))))
	g.srv.Say(g.srv.DM(ann), ann, "here")
	g.run()
	g.wait(1)
}
