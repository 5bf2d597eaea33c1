package discord

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/discord/discordtest"
	"parley/conversation"
)

func keys(list []conversation.Inbound) []conversation.Key {
	var all []conversation.Key
	for _, in := range list {
		all = append(all, in.Key)
	}
	return all
}

func TestADirectMessageIsAnswered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	said := g.srv.Say(dm, ann, "Hello\nthere")
	got := g.wait(1)[0]
	place := conversation.Key("discord:dm:" + ann.ID)
	want := conversation.Inbound{
		ID: 1, Key: place, Origin: place, Account: discordtest.Bot.ID, SourceID: said.ID, Address: got.Address,
		Sender: conversation.Sender{ID: ann.ID, Name: "Ann"}, Place: "a private chat with Ann", Text: "Hello\nthere", At: bornAt(said.ID),
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(conversation.Inbound{})); diff != "" {
		t.Error(diff)
	}
	r.reply(t, got, "Hi **Ann**")
	sent := g.srv.SentTo(dm)
	if len(sent) != 1 || sent[0].Content != "Hi **Ann**" || sent[0].ReplyTo != said.ID {
		t.Fatalf("sent %+v", sent)
	}
}

func TestInChannelsOnlyMentionsAndRepliesAreAnswered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	general, free := g.srv.Channel(home, "general"), g.srv.Channel(home, "free")
	ann, bob := g.srv.Person("Ann"), g.srv.Person("Bob")
	g.cfg.FreeChannels = []string{free.ID}
	r := g.run()
	g.srv.Say(general, bob, "just chatting")
	first := g.srv.Say(general, ann, discordtest.Bot.Mention()+", what is this?")
	g.srv.Say(general, ann, "hey "+discordtest.Bot.Mention()+" and "+bob.Mention()+" in <#"+general.ID+"> <:cat:123>")
	g.srv.Say(general, ann, "@everyone look")
	g.srv.Say(general, bob, discordtest.Bot.Mention())
	r.reply(t, g.wait(3)[0], "an answer")
	answer := g.srv.SentTo(general)[0]
	if answer.ReplyTo != first.ID {
		t.Errorf("the answer replies to %s, want %s", answer.ReplyTo, first.ID)
	}
	g.srv.Say(general, bob, "thanks", discordtest.ReplySilently(answer))
	g.srv.Say(general, bob, "not you", discordtest.ReplyTo(first))
	g.srv.Say(general, g.srv.OtherBot("Other"), discordtest.Bot.Mention()+" hi")
	g.srv.Say(general, bob, "Bob joined "+discordtest.Bot.Mention(), discordtest.OfType(7))
	g.srv.Say(free, bob, "anything")
	want := []string{
		"what is this?", "hey @parley and @Bob in #general :cat:", discordtest.Bot.Mention(),
		"[in reply to parley:]\n> an answer\n\nthanks", "anything",
	}
	want[2] = "@parley"
	got := g.wait(5)
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Error(diff)
	}
	if in := got[0]; in.Key != channelKey(general.ID) || !in.Group || in.Place != "the channel #general of Home" {
		t.Errorf("%+v", in)
	}
}

func TestThreadsAreSessionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	general := g.srv.Channel(home, "general")
	ann := g.srv.Person("Ann")
	holiday := g.srv.Thread(general, ann, "Holiday")
	news := g.srv.Thread(g.srv.ChannelOfType(home, "news", discordtest.AnnouncementChannel), ann, "News")
	private := g.srv.Thread(general, ann, "Secret", discordtest.Private(ann, discordtest.Bot))
	forum := g.srv.ChannelOfType(home, "help", discordtest.ForumChannel)
	g.run()
	g.srv.Say(holiday, ann, "nobody asks you")
	g.srv.Say(holiday, ann, discordtest.Bot.Mention()+" where to?")
	g.srv.Say(holiday, ann, "and when?")
	g.srv.Say(general, ann, "and here?")
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" and here?")
	g.srv.Say(news, ann, discordtest.Bot.Mention()+" news")
	g.srv.Say(private, ann, discordtest.Bot.Mention()+" psst")
	post, _ := g.srv.Post(forum, ann, "My problem", discordtest.Bot.Mention()+" help")
	g.srv.Say(g.srv.DM(ann), ann, "alone")
	got := g.wait(7)
	want := []conversation.Key{
		threadKey(holiday.ID), threadKey(holiday.ID), channelKey(general.ID), threadKey(news.ID), threadKey(private.ID),
		threadKey(post.ID), dmKey(ann.ID),
	}
	if diff := cmp.Diff(want, keys(got)); diff != "" {
		t.Error(diff)
	}
	if in := got[0]; in.Place != `the thread "Holiday" in #general of Home` || in.Title != "Holiday" || !in.Group {
		t.Errorf("%+v", in)
	}
}

// A thread without an event, such as one that was hidden for a while, is requested before its message
// is accepted.
func TestAnUnknownThreadIsLookedUp(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	ann := g.srv.Person("Ann")
	thread := g.srv.Thread(g.srv.Channel(home, "general"), ann, "Hidden")
	g.srv.Archive(thread, true)
	g.run()
	g.srv.Say(thread, ann, discordtest.Bot.Mention()+" one")
	g.srv.Say(thread, ann, "two")
	got := g.wait(2)
	if in := got[0]; in.Key != threadKey(thread.ID) || in.Place != `the thread "Hidden" in #general of Home` || got[1].Text != "two" {
		t.Errorf("%+v", got)
	}
}

func TestUnreadableMessagesAreSkipped(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	ann := g.srv.Person("Ann")
	g.run()
	for _, data := range []string{
		`{}`, `[]`, `"x"`, `{"id":5,"channel_id":[]}`, `{"id":"5","channel_id":"6"}`, `{"channel_id":"x","guild_id":"y","id":"z","author":{"id":"1"}}`,
		`{"id":"5","channel_id":"6","author":null,"content":null,"attachments":[null],"referenced_message":{"components":[{"type":99}]}}`,
	} {
		for _, kind := range []string{"MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "INTERACTION_CREATE", "A_NEW_EVENT"} {
			g.srv.Push(kind, home, data)
		}
	}
	g.srv.Say(g.srv.DM(ann), ann, "still there?")
	g.until("the message", func() bool { n := len(g.accepted); return n > 0 && g.accepted[n-1].Text == "still there?" })
}
