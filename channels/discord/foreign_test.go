package discord

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/discord/discordtest"
	"parley/conversation"
)

// foreignGateway returns a gateway at a server that others wrote for Discord's clients. Such servers
// differ in details that Discord's documentation leaves open, and in some that it does not.
func foreignGateway(t *testing.T) *gateway {
	return newGatewayWith(t, discordtest.Config{Foreign: true})
}

func TestMissedMessagesOfAnUnsortedPageAreTakenInOrder(t *testing.T) {
	t.Parallel()
	g := foreignGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	must(t, g.accept(t.Context(), cursorsAt(dm, "1")))
	want := []string{"one", "two", "three"}
	for _, text := range want {
		g.srv.Say(dm, ann, text)
	}
	g.run()
	if diff := cmp.Diff(want, texts(g.wait(3))); diff != "" {
		t.Error(diff)
	}
}

func TestMissedMessagesOfUnsortedPagesAreTakenInOrder(t *testing.T) {
	t.Parallel()
	g := foreignGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	must(t, g.accept(t.Context(), cursorsAt(dm, "1")))
	var want []string
	for range 2*pageSize + 1 {
		want = append(want, g.srv.Say(dm, ann, "message").ID)
	}
	g.run()
	var got []string
	for _, in := range g.wait(len(want)) {
		got = append(got, in.SourceID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReplyIsPostedAgainWhenItsPreviewIsGone(t *testing.T) {
	t.Parallel()
	g := foreignGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "hi")
	in := g.wait(1)[0]
	r.Preview(in.Key, in.ID, in.Address, "Hel")
	g.srv.Delete(waitShown(t, g, dm, "Hel"+previewMark))
	r.reply(t, in, "Hello")
	if sent := g.srv.SentTo(dm); len(sent) != 1 || sent[0].Content != "Hello" {
		t.Fatalf("%+v", sent)
	}
}

func TestReplyToAPlaceThatIsGoneIsTriedOnce(t *testing.T) {
	t.Parallel()
	g := foreignGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" hi")
	in := g.wait(1)[0]
	g.srv.Remove(general)
	if err := r.deliver(deadline(t), conversation.Delivery{Key: in.Key, RunID: in.ID, Address: in.Address, Text: "Hello"}); err == nil {
		t.Fatal("the reply was posted in a place that does not exist")
	}
	if n := g.srv.Calls("POST /channels/{channel}/messages"); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestExpiredInteractionIsAnsweredInWords(t *testing.T) {
	t.Parallel()
	g := foreignGateway(t)
	r := g.runWithCommands()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.slash(dm, ann, "new")
	in := g.wait(1)[0]
	g.srv.Fail("PATCH /webhooks/{application}/{token}/messages/{message}", discordtest.UnknownWebhook, 1)
	r.reply(t, in, "done")
	if sent := g.srv.SentTo(dm); len(sent) == 0 || sent[len(sent)-1].Content != "done" {
		t.Fatalf("%+v", sent)
	}
}

func TestRefusedPermissionStopsThreadsInAChannel(t *testing.T) {
	t.Parallel()
	g := foreignGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	g.srv.Deny(general, discordtest.CreatePublicThreads)
	ann := g.srv.Person("Ann")
	g.cfg.AutoThread = true
	r := g.run()
	for i, text := range []string{"one", "two", "three"} {
		g.srv.Say(general, ann, discordtest.Bot.Mention()+" "+text)
		r.reply(t, g.wait(i + 1)[i], "ok")
	}
	if got := keys(g.inbounds()); got[1] != channelKey(general.ID) || got[2] != channelKey(general.ID) {
		t.Errorf("the messages are in the sessions %v, want one", got)
	}
	if n := g.srv.Calls("POST /channels/{channel}/messages/{message}/threads"); n != 1 {
		t.Errorf("Discord was asked for a thread %d times", n)
	}
}

func TestUndocumentedEventIsWarnedAboutOnceAKind(t *testing.T) {
	t.Parallel()
	g := foreignGateway(t)
	home := g.srv.Guild("Home")
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.run()
	for range 3 {
		g.srv.Push("THREAD_LIST_SYNC", home, `{"guild_id":"1","threads":{}}`)
		g.srv.Push("CHANNEL_UPDATE", home, `{"id":12}`)
	}
	g.srv.Say(dm, ann, "hi")
	g.wait(1)
	for _, kind := range []string{"THREAD_LIST_SYNC", "CHANNEL_UPDATE"} {
		if n := g.log.count("event=" + kind); n != 1 {
			t.Errorf("%d warnings about %s", n, kind)
		}
	}
}
