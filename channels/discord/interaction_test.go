package discord

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/channels/discord/discordtest"
	"parley/conversation"
)

// runWithCommands runs the adapter until its commands are registered.
func (g *gateway) runWithCommands() running {
	g.t.Helper()
	r := g.run()
	g.waitCommands(discordtest.Guild{})
	return r
}

// waitCommands waits until commands are registered in a guild, or globally for the zero Guild.
func (g *gateway) waitCommands(in discordtest.Guild) {
	g.t.Helper()
	must(g.t, g.srv.Wait(deadline(g.t), "commands", func() bool { return len(g.srv.Commands(in)) > 0 }))
}

func (g *gateway) slash(in discordtest.Channel, by discordtest.User, name string, args ...discordtest.Argument) discordtest.Interaction {
	g.t.Helper()
	used, err := g.srv.Slash(in, by, name, args...)
	must(g.t, err)
	return used
}

func TestSlashCommandsActLikeTypedOnes(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	thread := g.srv.Thread(general, ann, "Holiday")
	g.runWithCommands()
	g.slash(general, ann, "status")
	g.slash(thread, ann, "new", discordtest.Arg("title", "My trip"))
	g.slash(g.srv.DM(ann), ann, "history", discordtest.Arg("skip", 10))
	g.slash(general, ann, "history", discordtest.Arg("count", 3), discordtest.Arg("which", "#2"))
	got := g.wait(4)
	if diff := cmp.Diff([]string{"/status", "/new My trip", "/history 5 10", "/history #2 3"}, texts(got)); diff != "" {
		t.Error(diff)
	}
	want := []conversation.Key{channelKey(general.ID), threadKey(thread.ID), dmKey(ann.ID), channelKey(general.ID)}
	if diff := cmp.Diff(want, keys(got)); diff != "" {
		t.Error(diff)
	}
}

// The choices of an option reach the command as they are written, and no other value is offered.
func TestSlashCommandsOfferTheirChoices(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.runWithCommands()
	var offered []string
	for _, c := range g.srv.Commands(discordtest.Guild{}) {
		for _, o := range c.Options {
			for _, choice := range o.Choices {
				offered = append(offered, c.Name+" "+o.Name+": "+choice.Name+" = "+string(choice.Value))
			}
		}
	}
	if diff := cmp.Diff([]string{`state change: add rule = "add rule"`, `state change: strike = "strike"`}, offered); diff != "" {
		t.Error(diff)
	}
	g.slash(dm, ann, "state", discordtest.Arg("change", "add rule"), discordtest.Arg("what", "answer in rhymes"))
	g.slash(dm, ann, "state", discordtest.Arg("change", "strike"), discordtest.Arg("what", "1"))
	if diff := cmp.Diff([]string{"/state add rule answer in rhymes", "/state strike 1"}, texts(g.wait(2))); diff != "" {
		t.Error(diff)
	}
	if _, err := g.srv.Slash(dm, ann, "state", discordtest.Arg("change", "forget everything")); err == nil {
		t.Error("a choice that is not offered is taken")
	}
}

func TestTheAnswerToACommandIsForTheAsker(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann, bob := g.srv.Person("Ann"), g.srv.Person("Bob")
	r := g.runWithCommands()
	private, public := g.slash(general, ann, "status"), g.slash(general, ann, "new")
	for i, in := range g.wait(2) {
		must(t, g.srv.WaitAcknowledged(deadline(t), []discordtest.Interaction{private, public}[i]))
		r.reply(t, in, "the answer to "+in.Text)
	}
	answers, err := g.srv.WaitAnswers(deadline(t), private, 1)
	must(t, err)
	if m := answers[0]; !m.Ephemeral() || m.Content != "the answer to /status" || !m.Pinged.Nobody() {
		t.Errorf("%+v", m)
	}
	if seen := g.srv.Seen(general, bob); len(seen) != 1 || seen[0].Content != "the answer to /new" {
		t.Errorf("Bob sees %+v", seen)
	}
}

func TestButtonsTurnPagesInTheSameMessage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	r := g.runWithCommands()
	used := g.slash(dm, ann, "history")
	r.reply(t, g.wait(1)[0], "page one", conversation.Action{Label: "Older", Command: "/history 5 5"}, conversation.Action{Label: "", Command: "/x"})
	page, err := g.srv.WaitAnswers(deadline(t), used, 1)
	must(t, err)
	pressed, err := g.srv.Press(page[0], ann, "/history 5 5")
	must(t, err)
	in := g.wait(2)[1]
	if in.Text != "/history 5 5" || in.Key != dmKey(ann.ID) {
		t.Fatalf("%+v", in)
	}
	must(t, g.srv.WaitAcknowledged(deadline(t), pressed))
	r.reply(t, in, "page two")
	now, _ := g.srv.Message(page[0].ID)
	if now.Content != "page two" || len(g.srv.Seen(dm, ann)) != 1 {
		t.Errorf("%+v", g.srv.Seen(dm, ann))
	}
	if _, err := g.srv.Press(now, ann, "/history 5 5"); err == nil {
		t.Error("the last page still has a button to an older one")
	}
}

// A private answer that is too long for a message is one message with a file. Only the person who asked
// sees it and the pages that its buttons show.
func TestPagesOfAPrivateAnswerArePrivate(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]int{"paged": 0, "paged when the first answer failed": 1} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			general := g.srv.Channel(g.srv.Guild("Home"), "general")
			ann, bob := g.srv.Person("Ann"), g.srv.Person("Bob")
			r := g.runWithCommands()
			page := strings.Repeat("what Ann asked and was told\n", 100)
			used := g.slash(general, ann, "history")
			r.reply(t, g.wait(1)[0], page, conversation.Action{Label: "Older", Command: "/history 5 5"})
			answers, err := g.srv.WaitAnswers(deadline(t), used, 1)
			must(t, err)
			if len(answers) != 1 || len(answers[0].Files) != 1 {
				t.Errorf("the answer is %+v", answers)
			}
			g.srv.Fail("POST /interactions/{interaction}/{token}/callback", discordtest.UnknownInteraction, fail)
			_, err = g.srv.Press(answers[0], ann, "/history 5 5")
			must(t, err)
			r.reply(t, g.wait(2)[1], page)
			if seen := g.srv.Seen(general, bob); len(seen) != 0 {
				t.Errorf("Bob sees %q", seen[0].Content)
			}
		})
	}
}

// Discord gives a command up that is not acknowledged within three seconds. Fetching the missed messages
// of its place may take longer, and still comes first.
func TestCommandIsAcknowledgedInTimeDuringCatchUp(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	must(t, g.accept(t.Context(), cursorsAt(general, "1")))
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" missed")
	looked := make(chan struct{})
	g.srv.Fail("GET /channels/{channel}/messages", discordtest.Held(looked), 1)
	r := g.runWithCommands()
	must(t, g.srv.WaitCalls(deadline(t), "GET /channels/{channel}/messages", 1))
	used := g.slash(general, ann, "status")
	must(t, g.srv.WaitAcknowledged(deadline(t), used))
	if got := g.inbounds(); len(got) != 0 {
		t.Errorf("the command was accepted before earlier messages: %q", texts(got))
	}
	close(looked)
	got := g.wait(2)
	if diff := cmp.Diff([]string{"missed", "/status"}, texts(got)); diff != "" {
		t.Error(diff)
	}
	r.reply(t, got[1], "the state")
	answers, err := g.srv.WaitAnswers(deadline(t), used, 1)
	must(t, err)
	if answers[0].Content != "the state" || !answers[0].Ephemeral() {
		t.Errorf("%+v", answers)
	}
}

func TestACommandThatTookTooLongIsAnsweredByAMessage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	r := g.runWithCommands()
	private, public := g.slash(general, ann, "status"), g.slash(general, ann, "new")
	got := g.wait(2)
	must(t, g.srv.WaitAcknowledged(deadline(t), private))
	must(t, g.srv.WaitAcknowledged(deadline(t), public))
	g.srv.Advance(20 * time.Minute)
	for _, in := range got {
		r.reply(t, in, "late answer to "+in.Text)
	}
	if sent := g.srv.SentTo(g.srv.DM(ann)); len(sent) != 1 || sent[0].Content != "late answer to /status" {
		t.Errorf("in private: %+v", sent)
	}
	sent := g.srv.SentTo(general)
	if n := len(sent); n == 0 || sent[n-1].Content != "late answer to /new" {
		t.Errorf("in the channel: %+v", sent)
	}
}

func TestACommandWhoseFirstAnswerFailsIsAnsweredByAMessage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	r := g.runWithCommands()
	g.srv.Fail("POST /interactions/{interaction}/{token}/callback", discordtest.UnknownInteraction, 1)
	g.slash(general, ann, "new")
	r.reply(t, g.wait(1)[0], "done")
	if sent := g.srv.SentTo(general); len(sent) != 1 || sent[0].Content != "done" {
		t.Fatalf("%+v", sent)
	}
}

func TestCommandsAreRegisteredAfterFailures(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	ann := g.srv.Person("Ann")
	g.cfg.Guilds = []string{"424242424242424242", home.ID} // the bot is not in the first one
	g.srv.Fail("PUT /applications/{application}/commands", discordtest.BadGateway(), 1)
	g.run()
	g.waitCommands(home)
	g.slash(g.srv.Channel(home, "general"), ann, "status")
	g.wait(1)
}

func TestCommandsAreRegisteredInConfiguredServersOnly(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home, other := g.srv.Guild("Home"), g.srv.Guild("Other")
	ann := g.srv.Person("Ann")
	g.cfg.Guilds = []string{home.ID}
	g.run()
	g.waitCommands(home)
	g.slash(g.srv.Channel(home, "general"), ann, "status")
	if _, err := g.srv.Slash(g.srv.Channel(other, "general"), ann, "status"); err == nil {
		t.Error("the command is offered elsewhere")
	}
	g.wait(1)
}
