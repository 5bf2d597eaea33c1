package discord

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/access"
	"parley/channels/discord/discordtest"
	"parley/conversation"
	"parley/conversation/pairing"
)

func TestAllowListAdmitsByPersonRoleServerAndChannel(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home, other := g.srv.Guild("Home"), g.srv.Guild("Other")
	open, closed := g.srv.Channel(home, "open"), g.srv.Channel(home, "closed")
	staff := g.srv.Role(home, "Staff")
	ann, bob, cem := g.srv.Person("Ann"), g.srv.Person("Bob"), g.srv.Person("Cem")
	g.srv.Join(home, bob, staff)
	g.cfg.Access, g.cfg.Allow = access.Allowlist, []string{ann.ID, staff.ID, open.ID, other.ID, "@dora"}
	thread := g.srv.Thread(open, cem, "Thread")
	g.run()
	me := discordtest.Bot.Mention()
	g.srv.Say(closed, ann, me+" by person")
	g.srv.Say(closed, bob, me+" by role")
	g.srv.Say(open, cem, me+" by channel")
	g.srv.Say(thread, cem, me+" by the channel of a thread")
	g.srv.Say(g.srv.Channel(other, "general"), cem, me+" by server")
	g.srv.Say(closed, g.srv.Person("dora"), me+" by username")
	g.srv.Say(closed, cem, me+" not at all")
	g.srv.Say(g.srv.DM(bob), bob, "roles are not for DMs")
	g.srv.Say(closed, ann, me+" end")
	want := []string{"by person", "by role", "by channel", "by the channel of a thread", "by server", "by username", "end"}
	if diff := cmp.Diff(want, texts(g.wait(7))); diff != "" {
		t.Error(diff)
	}
	if sent := g.srv.Sent(); len(sent) != 0 {
		t.Errorf("strangers were told %+v", sent)
	}
}

// Roles also admit messages from while the bot was away, which Discord lists without the author's
// roles.
func TestRolesAdmitMissedMessages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	general := g.srv.Channel(home, "general")
	staff := g.srv.Role(home, "Staff")
	bob, cem := g.srv.Person("Bob"), g.srv.Person("Cem")
	g.srv.Join(home, bob, staff)
	g.cfg.Access, g.cfg.Allow = access.Allowlist, []string{staff.ID}
	must(t, g.accept(t.Context(), cursorsAt(general, "1")))
	g.srv.Say(general, cem, discordtest.Bot.Mention()+" me not")
	g.srv.Say(general, bob, discordtest.Bot.Mention()+" me")
	g.run()
	if got := g.wait(1); got[0].Text != "me" {
		t.Errorf("%q", got[0].Text)
	}
}

// A brief failure of Discord must not make a stranger of somebody with a role.
func TestRolesAreRequestedAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	general := g.srv.Channel(home, "general")
	ann := g.srv.Person("Ann")
	staff := g.srv.Role(home, "Staff")
	g.srv.Join(home, ann, staff)
	g.cfg.Access, g.cfg.Allow = access.Allowlist, []string{staff.ID}
	must(t, g.accept(t.Context(), cursorsAt(general, "1")))
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" missed")
	g.srv.Fail("GET /guilds/{guild}/members/{user}", discordtest.ServerError(), 1)
	g.run()
	g.wait(1)
}

func TestStrangerGetsOneCodeAndIsAdmittedByIt(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.cfg.Access = access.Pairing
	g.runWithCommands()
	g.srv.Say(general, ann, discordtest.Bot.Mention()+" hello")
	g.srv.Say(dm, ann, "hello")
	g.srv.Say(dm, ann, "hello?")
	sent, err := g.srv.WaitSentTo(deadline(t), dm, 1)
	must(t, err)
	list, err := pairing.New(g.store).List(t.Context())
	must(t, err)
	if len(list) != 1 || !strings.Contains(sent[0].Content, list[0].Code) {
		t.Fatalf("%+v, told %q", list, sent[0].Content)
	}
	refused := g.slash(general, ann, "status")
	answers, err := g.srv.WaitAnswers(deadline(t), refused, 1)
	must(t, err)
	if !answers[0].Ephemeral() {
		t.Error("everybody sees that Ann is a stranger")
	}

	_, err = pairing.New(g.store).Approve(t.Context(), list[0].Code)
	must(t, err)
	g.srv.Say(dm, ann, "now")
	if got := g.wait(1); got[0].Text != "now" {
		t.Errorf("%q", got[0].Text)
	}
	if sent := g.srv.SentTo(dm); len(sent) != 1 || len(g.srv.SentTo(general)) != 0 {
		t.Errorf("told %+v", sent)
	}
}

// People whose access was withdrawn can't change waiting messages by editing them.
func TestEditsByPeopleWithoutAccessAreIgnored(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann, bob := g.srv.Person("Ann"), g.srv.Person("Bob")
	dm := g.srv.DM(ann)
	g.cfg.Access, g.cfg.Allow = access.Pairing, []string{bob.ID}
	asked, _, err := pairing.New(g.store).Ask(t.Context(), conversation.Account{Channel: name}, ann.ID, "Ann")
	must(t, err)
	_, err = pairing.New(g.store).Approve(t.Context(), asked.Code)
	must(t, err)
	g.run()
	said := g.srv.Say(dm, ann, "while let in")
	g.wait(1)
	_, err = pairing.New(g.store).Revoke(t.Context(), conversation.Account{Channel: name}, ann.ID)
	must(t, err)
	g.srv.Edit(said, "words of a stranger")
	g.srv.Say(g.srv.DM(bob), bob, "behind it")
	g.wait(2)
	turn, err := g.store.Begin(t.Context(), dmKey(ann.ID), 1000)
	must(t, err)
	if got := turn.Waiting[0].Text; got != "while let in" {
		t.Errorf("the model would read %q", got)
	}
}

func TestOtherBotsAreAnsweredWhenTheyAreNamed(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	friend, other := g.srv.OtherBot("Friend"), g.srv.OtherBot("Other")
	g.cfg.AllowBots = []string{friend.ID}
	g.run()
	g.srv.Say(general, other, discordtest.Bot.Mention()+" from another")
	g.srv.Say(general, friend, discordtest.Bot.Mention()+" from a friend")
	if got := g.wait(1); got[0].Text != "from a friend" {
		t.Errorf("%q", got[0].Text)
	}
}

// Two bots that answer each other stop, until a person writes.
func TestBotsAloneAreAnsweredTenTimes(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	ann, friend := g.srv.Person("Ann"), g.srv.OtherBot("Friend")
	g.cfg.AllowBots, g.cfg.FreeChannels = []string{friend.ID}, []string{general.ID}
	g.run()
	want := []string{"hello"}
	g.srv.Say(general, ann, "hello")
	for i := range 12 {
		text := fmt.Sprint("bot ", i)
		said := g.srv.Say(general, friend, text)
		g.srv.Edit(said, text+", edited")
		if i < 10 {
			want = append(want, text)
		}
	}
	g.srv.Say(general, ann, "stop it, both")
	g.srv.Say(general, friend, "sorry")
	want = append(want, "stop it, both", "sorry")
	var got []string
	for _, in := range g.wait(len(want)) {
		got = append(got, strings.TrimSuffix(in.Text, ", edited"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := g.log.count("bots not answered until a person writes"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
}

// People rename themselves on Discord, and others take the old name.
func TestNameInTheAllowListBelongsToItsFirstAccount(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	general := g.srv.Channel(g.srv.Guild("Home"), "general")
	dora, eve := g.srv.Person("dora"), g.srv.Person("eve")
	g.cfg.Access, g.cfg.Allow = access.Allowlist, []string{"@dora"}
	g.run()
	say := func(by discordtest.User, text string) { g.srv.Say(general, by, discordtest.Bot.Mention()+" "+text) }
	say(dora, "it's me")
	g.wait(1)
	g.srv.RenameUser(dora, "theodora")
	g.srv.RenameUser(eve, "dora")
	say(eve, "and now me")
	g.srv.RenameUser(eve, "eve")
	g.srv.RenameUser(dora, "dora")
	say(dora, "it's me again")
	if diff := cmp.Diff([]string{"it's me", "it's me again"}, texts(g.wait(2))); diff != "" {
		t.Error(diff)
	}
}

// A role admits missed messages of an account whose name belongs to another account.
func TestRolesAdmitTheNewHolderOfAName(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	home := g.srv.Guild("Home")
	general, staff := g.srv.Channel(home, "general"), g.srv.Role(home, "Staff")
	eve := g.srv.Person("dora")
	g.srv.Join(home, eve, staff)
	g.cfg.Access, g.cfg.Allow = access.Allowlist, []string{"@dora", staff.ID}
	_, err := pairing.New(g.store).BindName(t.Context(), name, "@dora", "1")
	must(t, err)
	must(t, g.accept(t.Context(), cursorsAt(general, "1")))
	g.srv.Say(general, eve, discordtest.Bot.Mention()+" by my role")
	g.run()
	g.wait(1)
}
