package discord

import (
	"strings"
	"testing"
	"time"

	"parley/channels/discord/discordtest"
)

func TestAMentionOpensAThread(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	g.cfg.AutoThread = true
	r := g.run()
	said := g.srv.Say(general, ann, discordtest.Bot.Mention()+" how do I bake "+strings.Repeat("good ", 30)+"bread?\nPlease")
	in := g.wait(1)[0]
	if in.Key != threadKey(said.ID) || !strings.HasPrefix(in.Title, "how do I bake good") || !strings.HasSuffix(in.Place, "in #general of Home") {
		t.Fatalf("%+v", in)
	}
	r.Preview(in.Key, in.ID, in.Address, "With flo")
	r.reply(t, in, "With flour.")
	threads := g.srv.Threads(general)
	if len(threads) != 1 || threads[0].ID != said.ID || threads[0].Name != in.Title {
		t.Fatalf("%+v", threads)
	}
	if sent := g.srv.SentTo(threads[0]); len(sent) != 1 || sent[0].Content != "With flour." {
		t.Fatalf("%+v", sent)
	}

	g.srv.Say(threads[0], ann, "and then?")
	second := g.wait(2)[1]
	if second.Key != in.Key {
		t.Errorf("the second message is in %s, the first in %s", second.Key, in.Key)
	}
	r.SetTitle(second.Address, "Bread")
	must(t, g.srv.Wait(deadline(t), "the new name", func() bool { p, _ := g.srv.Place(said.ID); return p.Name == "Bread" }))
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" /status")
	if third := g.wait(3)[2]; third.Key != channelKey(general.ID) || third.Text != "/status" {
		t.Errorf("a command acts on %s: %q", third.Key, third.Text)
	}
}

func TestAThreadThatIsThereAlreadyIsUsed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	g.cfg.AutoThread = true
	r := g.run()
	said := g.srv.Say(general, ann, discordtest.Bot.Mention()+" hi")
	in := g.wait(1)[0]
	thread := g.srv.ThreadOn(said, ann, "Mine")
	r.reply(t, in, "hello")
	if sent := g.srv.SentTo(thread); len(sent) != 1 {
		t.Fatalf("%+v", sent)
	}
}

func TestWithoutPermissionForThreadsItAnswersInTheChannel(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	g.srv.Deny(general, discordtest.CreatePublicThreads)
	ann := g.srv.Person("Ann")
	g.cfg.AutoThread = true
	r := g.run()
	said := g.srv.Say(general, ann, discordtest.Bot.Mention()+" hi")
	r.reply(t, g.wait(1)[0], "hello")
	if sent := g.srv.SentTo(general); len(sent) != 1 || sent[0].ReplyTo != said.ID {
		t.Fatalf("%+v", sent)
	}
}

func TestTitleFromBeforeTheThreadBecomesItsName(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	g.cfg.AutoThread = true
	r := g.run()
	said := g.srv.Say(general, ann, discordtest.Bot.Mention()+" how do I bake bread?")
	in := g.wait(1)[0]
	r.SetTitle(in.Address, "Bread")
	r.renames.Wait()
	r.reply(t, in, "With flour.")
	r.renames.Wait()
	if thread, _ := g.srv.Place(said.ID); thread.Name != "Bread" {
		t.Errorf("the thread is named %q", thread.Name)
	}
	if n := g.srv.Calls("PATCH /channels/{channel}"); n != 0 {
		t.Errorf("%d renames of a thread that has its name", n)
	}
}

func TestTitleDoesNotRenameAThreadOfSomebodyElse(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	g.cfg.AutoThread = true
	r := g.run()
	said := g.srv.Say(general, ann, discordtest.Bot.Mention()+" how do I bake bread?")
	in := g.wait(1)[0]
	r.SetTitle(in.Address, "Bread")
	r.renames.Wait()
	thread := g.srv.ThreadOn(said, ann, "Mine")
	r.reply(t, in, "With flour.")
	r.renames.Wait()
	if now, _ := g.srv.Place(thread.ID); now.Name != "Mine" || len(g.srv.SentTo(thread)) != 1 {
		t.Errorf("the thread is named %q and has %d replies", now.Name, len(g.srv.SentTo(thread)))
	}
}

// A title renames a thread that an earlier process opened before it died.
func TestTitleRenamesAThreadOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	g.cfg.AutoThread = true
	r := g.run()
	said := g.srv.Say(general, ann, discordtest.Bot.Mention()+" how do I bake bread?")
	in := g.wait(1)[0]
	r.Preview(in.Key, in.ID, in.Address, "With")
	must(t, g.srv.Wait(deadline(t), "the thread", func() bool { return len(g.srv.Threads(general)) == 1 }))
	must(t, r.stop())
	r = g.run()
	r.SetTitle(in.Address, "Bread")
	r.renames.Wait()
	r.reply(t, in, "With flour.")
	r.renames.Wait()
	if thread, _ := g.srv.Place(said.ID); thread.Name != "Bread" {
		t.Errorf("the thread is named %q", thread.Name)
	}
}

func TestTitleWithoutAThreadCausesNoRequestAndNoWarning(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	g.srv.Deny(general, discordtest.CreatePublicThreads)
	ann := g.srv.Person("Ann")
	g.cfg.AutoThread = true
	r := g.run()
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" hi")
	in := g.wait(1)[0]
	r.reply(t, in, "hello")
	r.SetTitle(in.Address, "Greetings")
	r.renames.Wait()
	if n := g.srv.Calls("PATCH /channels/{channel}"); n != 0 || g.log.count("thread not renamed") != 0 {
		t.Errorf("%d requests, %d warnings", n, g.log.count("thread not renamed"))
	}
}

// Where the bot may open no threads, the channel is one session.
func TestWithoutPermissionForThreadsTheChannelIsTheSession(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	g.srv.Deny(general, discordtest.CreatePublicThreads)
	ann := g.srv.Person("Ann")
	g.cfg.AutoThread = true
	r := g.run()
	for i, text := range []string{"one", "two", "three"} {
		g.srv.Say(general, ann, discordtest.Bot.Mention()+" "+text)
		r.reply(t, g.wait(i + 1)[i], "ok")
	}
	got := keys(g.inbounds())
	if got[1] != channelKey(general.ID) || got[2] != channelKey(general.ID) {
		t.Errorf("the messages are in the sessions %v, want one", got)
	}
}

func TestFirstRunOfAThreadSeesItsStartingMessage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann, bob := g.srv.Person("Ann"), g.srv.Person("Bob")
	g.cfg.ThreadContext = true
	origin := g.srv.Say(general, bob, "the roof leaks")
	thread := g.srv.ThreadOn(origin, ann, "Roof")
	r := g.run()
	g.srv.Say(thread, ann, discordtest.Bot.Mention()+" what can we do?")
	g.srv.Say(thread, ann, "quickly")
	got := g.wait(2)
	if len(got[0].Attachments) != 1 || len(got[1].Attachments) != 0 {
		t.Fatalf("%+v", got)
	}
	data, err := fetch(t, r, got[0].Attachments[0])
	if string(data) != "Bob wrote:\nthe roof leaks" {
		t.Errorf("%q, %v", data, err)
	}
}

// A reminder that was asked for with a mention comes in the thread of that mention, also after a restart.
func TestReminderComesInTheThreadOfItsMention(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.cfg.AutoThread = true
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	r := g.run()
	said := g.srv.Say(general, ann, discordtest.Bot.Mention()+" remind me")
	in := g.wait(1)[0]
	r.reply(t, in, "I will")
	must(t, r.stop())
	in.At, in.Reminder.Reminder = time.Now(), 1
	in.Address = r.Readdress(in)
	again := running{Channel: g.channel()}
	again.reply(t, in, "Drink water")
	again.reply(t, in, "Drink water")
	sent := g.srv.SentTo(discordtest.Channel{ID: said.ID})
	if len(sent) != 2 || sent[0].Content != "I will" || sent[1].Content != "Drink water" {
		t.Errorf("the thread shows %+v", sent)
	}
	if sent := g.srv.SentTo(general); len(sent) != 0 {
		t.Errorf("the channel shows %+v", sent)
	}
}
