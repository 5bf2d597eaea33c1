package discordtest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/channels/discord/discordtest"
)

// newServerWithHistoryCommand is a server whose bot has the command /history.
func newServerWithHistoryCommand(t *testing.T) (*discordtest.Server, discordtest.Channel, discordtest.User) {
	t.Helper()
	s := discordtest.New(t)
	ada := s.Person("Ada")
	general := s.Channel(s.Guild("g"), "general")
	got := call(t, s, "PUT", "/applications/"+discordtest.ApplicationID+"/commands",
		`[{"name":"history","description":"What was said","options":[{"type":4,"name":"n","description":"How many","min_value":1}]}]`)
	if got.Status != 200 {
		t.Fatal(got)
	}
	return s, general, ada
}

func slash(t *testing.T, s *discordtest.Server, in discordtest.Channel, by discordtest.User, args ...discordtest.Argument) discordtest.Interaction {
	t.Helper()
	i, err := s.Slash(in, by, "history", args...)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func respond(t *testing.T, s *discordtest.Server, i discordtest.Interaction, body string) string {
	t.Helper()
	return call(t, s, "POST", "/interactions/"+i.ID+"/"+i.Token+"/callback", body).String()
}

func TestCommandsAreCheckedWhenTheyAreRegistered(t *testing.T) {
	t.Parallel()
	s := discordtest.New(t)
	put := func(list string) answer {
		return call(t, s, "PUT", "/applications/"+discordtest.ApplicationID+"/commands", list)
	}
	option := func(o string) string { return `[{"name":"a","description":"d","options":[` + o + `]}]` }
	for list, want := range map[string]int{
		`[{"name":"new","description":"Begin"}]`:                                                                  200,
		`[{"name":"New","description":"Begin"}]`:                                                                  400,
		`[{"name":"with space","description":"Begin"}]`:                                                           400,
		`[{"name":"new"}]`:                                                                                        400,
		`[{"name":"new","description":"` + strings.Repeat("x", 101) + `"}]`:                                       400,
		`[{"name":"a","description":"d"},{"name":"a","description":"d"}]`:                                         400,
		option(`{"type":3,"name":"x","description":"d","required":true}`):                                         200,
		option(`{"type":0,"name":"x","description":"d"}`):                                                         400,
		option(`{"type":3,"name":"x","description":""}`):                                                          400,
		option(`{"type":3,"name":"x","description":"d"},{"type":3,"name":"x","description":"d"}`):                 400,
		option(`{"type":3,"name":"x","description":"d"},{"type":3,"name":"y","description":"d","required":true}`): 400,
		`[` + strings.TrimSuffix(strings.Repeat(`{"name":"x","description":"d"},`, 101), ",") + `]`:               400,
	} {
		if got := put(list); got.Status != want {
			t.Errorf("%.100s: %s %s, want %d", list, got, got.Errors, want)
		}
	}
	if got := call(t, s, "PUT", "/applications/5/commands", `[]`); got.Code != 10002 {
		t.Error(got)
	}
	if got := call(t, s, "PUT", "/applications/"+discordtest.ApplicationID+"/guilds/5/commands", `[]`); got.Code != 50001 {
		t.Error(got)
	}
}

func TestAnInteractionIsAnsweredOnceAndInTime(t *testing.T) {
	t.Parallel()
	s, general, ada := newServerWithHistoryCommand(t)
	i := slash(t, s, general, ada)
	if got := respond(t, s, i, `{"type":4,"data":{"content":""}}`); got != "400 50006 Cannot send an empty message" {
		t.Error(got)
	}
	if got := respond(t, s, i, `{"type":7,"data":{"content":"x"}}`); got != "400 50035 Invalid Form Body" {
		t.Error(got)
	}
	if got := respond(t, s, i, `{"type":4,"data":{"content":"here"}}`); got != "204" {
		t.Error(got)
	}
	if got := respond(t, s, i, `{"type":4,"data":{"content":"again"}}`); got != "400 40060 Interaction has already been acknowledged." {
		t.Error(got)
	}
	if all := s.Answers(i); len(all) != 1 || all[0].Content != "here" || len(s.SentTo(general)) != 1 {
		t.Errorf("%+v", all)
	}
	late := slash(t, s, general, ada)
	s.Advance(3*time.Second + time.Millisecond)
	if got := respond(t, s, late, `{"type":5}`); got != "404 10062 Unknown interaction" {
		t.Error(got)
	}
}

func TestADeferredAnswerForTheAskerAlone(t *testing.T) {
	t.Parallel()
	s, general, ada := newServerWithHistoryCommand(t)
	bob := s.Person("Bob")
	i := slash(t, s, general, ada)
	hook := "/webhooks/" + discordtest.ApplicationID + "/" + i.Token
	if got := call(t, s, "PATCH", hook+"/messages/@original", `{"content":"x"}`); got.Code != 10015 {
		t.Error("before the first answer:", got)
	}
	respond(t, s, i, `{"type":5,"data":{"flags":64}}`)
	if !s.Acknowledged(i) || len(s.Answers(i)) != 0 {
		t.Errorf("deferred: %+v", s.Answers(i))
	}
	if got := call(t, s, "PATCH", hook+"/messages/@original", `{"content":"the history"}`); got.Content != "the history" {
		t.Error(got)
	}
	if got := call(t, s, "POST", hook, `{"content":"and more","flags":64}`); got.Status != 200 {
		t.Error(got)
	}
	all, err := s.WaitAnswers(withTimeout(t), i, 2)
	if err != nil || !all[0].Ephemeral() || !all[1].Ephemeral() || all[0].Content != "the history" {
		t.Errorf("%+v %v", all, err)
	}
	if n := len(s.SentTo(general)) + len(s.Seen(general, bob)); n != 0 {
		t.Errorf("others see %d messages", n)
	}
	if n := len(s.Seen(general, ada)); n != 2 {
		t.Errorf("the asker sees %d messages", n)
	}
	if got := call(t, s, "DELETE", hook+"/messages/@original", ""); got.Status != 204 || len(s.Answers(i)) != 1 {
		t.Error(got)
	}
	s.Advance(15 * time.Minute)
	if got := call(t, s, "POST", hook, `{"content":"too late"}`); got.Code != 50027 {
		t.Error(got)
	}
}

func TestButtonsPageAMessage(t *testing.T) {
	t.Parallel()
	s, general, ada := newServerWithHistoryCommand(t)
	i := slash(t, s, general, ada)
	page := `{"type":%d,"data":{"content":"page %d","flags":64,"components":[{"type":1,"components":[{"type":2,"style":2,"label":"Older","custom_id":"older"}]}]}}`
	respond(t, s, i, fmt.Sprintf(page, 4, 1))
	shown := s.Answers(i)[0]
	if _, err := s.Press(shown, s.Person("Bob"), "older"); err == nil {
		t.Error("somebody else presses the button of an ephemeral message")
	}
	if _, err := s.Press(shown, ada, "newer"); err == nil {
		t.Error("a button that is not there can be pressed")
	}
	press, err := s.Press(shown, ada, "older")
	if err != nil {
		t.Fatal(err)
	}
	if got := respond(t, s, press, fmt.Sprintf(page, 7, 2)); got != "204" {
		t.Error(got)
	}
	if all := s.Answers(i); len(all) != 1 || all[0].Content != "page 2" || len(all[0].Versions) != 2 || !all[0].Ephemeral() {
		t.Errorf("%+v", all)
	}
}

func TestPeopleUseOnlyWhatIsRegistered(t *testing.T) {
	t.Parallel()
	s, general, ada := newServerWithHistoryCommand(t)
	if _, err := s.Slash(general, ada, "nothing"); err == nil {
		t.Error("a command that is not registered")
	}
	for _, bad := range []discordtest.Argument{discordtest.Arg("m", 1), discordtest.Arg("n", "one"), discordtest.Arg("n", 0)} {
		if _, err := s.Slash(general, ada, "history", bad); err == nil {
			t.Errorf("takes %+v", bad)
		}
	}
	slash(t, s, s.DM(ada), ada, discordtest.Arg("n", 5))
}
