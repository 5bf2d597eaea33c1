package grouptalk_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/grouptalk"
	"parley/conversation/storetest"
)

const room conversation.Key = "telegram:chat:-1"

// aside returns a message of the group that is not for the assistant.
func aside(id int, person, name, text string) conversation.Inbound {
	in := storetest.Say(room, id, text)
	in.Aside, in.Group, in.Sender = true, true, conversation.Sender{ID: person, Name: name}
	return in
}

// find returns the hits of a query as lines.
func find(t *testing.T, s *conversation.Store, key conversation.Key, query string, offset int) (lines []string) {
	t.Helper()
	found, _, err := grouptalk.New(s).Find(t.Context(), key, query, offset, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range found {
		lines = append(lines, m.Name+": "+m.Text)
	}
	return lines
}

// Group talk is deleted with the active conversation and with the session, but not with an older
// conversation.
func TestGroupTalkIsDeletedWithItsConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	fill := func(id int) (active string) {
		storetest.Accept(t, s, aside(id, "1", "Ada", "between us"))
		storetest.Turn(t, s, room, id+1)
		c, err := s.Active(t.Context(), room)
		if err != nil {
			t.Fatal(err)
		}
		return c.ID
	}
	kept := func() int {
		n, _, err := grouptalk.New(s).Count(t.Context(), room)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := fill(1)
	if _, err := s.Archive(t.Context(), room, first); err != nil {
		t.Fatal(err)
	}
	second := fill(3)
	for _, c := range []struct {
		id   string
		want int
	}{{first, 2}, {second, 0}} {
		if _, err := s.Delete(t.Context(), room, c.id); err != nil {
			t.Fatal(err)
		}
		if got := kept(); got != c.want {
			t.Errorf("%d messages are kept, want %d", got, c.want)
		}
	}
	fill(5)
	if _, err := s.Delete(t.Context(), room, ""); err != nil {
		t.Fatal(err)
	}
	fresh := storetest.Say(room, 9, "/clear")
	fresh.Sender = conversation.Sender{ID: "1"}
	storetest.Accept(t, s, aside(7, "1", "Ada", "again"), fresh)
	turn := storetest.Begin(t, s, room, 1000)
	storetest.Commit(t, s, conversation.Run{Key: room, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: turn.Waiting,
		Conversation: turn.Conversation, Effect: conversation.Effect{Delete: true}})
	if got := kept(); got != 0 {
		t.Errorf("%d messages are kept after /clear", got)
	}
}

func TestFindLooksThroughOneSession(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	elsewhere := aside(9, "1", "Ada", "We baked cakes elsewhere")
	elsewhere.Key = "telegram:chat:-2"
	storetest.Accept(t, s, elsewhere, aside(1, "1", "Ada", "Who bakes a cake?"), aside(2, "2", "Ben", "Not me"), aside(2, "2", "Ben", "told twice"),
		aside(3, "3", "ada", "Baking is fun, and cakes too"), aside(4, "2", "Ben", "明日は雨です"))
	for query, want := range map[string]string{
		"":              "Ben: 明日は雨です|ada (3): Baking is fun, and cakes too|Ben: Not me",
		"cake baking":   "ada (3): Baking is fun, and cakes too|Ada: Who bakes a cake?",
		"ben":           "Ben: 明日は雨です|Ben: Not me",
		"雨":             "Ben: 明日は雨です",
		"twice":         "",
		"elephants \"(": "",
	} {
		if got := strings.Join(find(t, s, room, query, 0), "|"); got != want {
			t.Errorf("%q: %s", query, got)
		}
	}
	if got := find(t, s, room, "", 3); len(got) != 1 || got[0] != "Ada: Who bakes a cake?" {
		t.Errorf("second page: %q", got)
	}
	if got := find(t, s, "telegram:chat:-3", "cake", 0); got != nil {
		t.Errorf("another session: %q", got)
	}
}

func TestGroupTalkIsShownOnceWithTheNextMessage(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	question := storetest.Say(room, 10, "what did we say?")
	question.Talk.Most = 2
	command := question
	command.SourceID, command.Text = "11", "/new"
	again := question
	again.SourceID = "12"
	storetest.Accept(t, s, aside(1, "1", "Ada", "one"), aside(2, "2", "Ben", "two\nlines"), aside(3, "3", "ben", strings.Repeat("x", 5000)))
	edited := storetest.Say(room, 1, "one, Parley?") // an edit has addressed it to the assistant
	edited.Talk.Most = 1
	stored, err := s.Accept(t.Context(), nil, command, question, again, edited)
	if err != nil {
		t.Fatal(err)
	}
	if want := "Ben: two\n  lines\nben (3): " + strings.Repeat("x", 500) + " …"; stored[1].Overheard != want {
		t.Errorf("shown %q", stored[1].Overheard)
	}
	if stored[0].Overheard+stored[2].Overheard+stored[3].Overheard != "" {
		t.Errorf("shown again: %+v", stored)
	}
	if got := find(t, s, room, "", 0); len(got) != 2 {
		t.Errorf("left: %q", got)
	}
	if n := storetest.Count(t, s, `SELECT count(*) FROM sessions`); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func TestGroupTalkIsBounded(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	var batch []conversation.Inbound
	for n := range 1100 {
		batch = append(batch, aside(n, "1", "Ada", fmt.Sprintf("message %d", n)))
	}
	storetest.Accept(t, s, batch...)
	if _, total, err := grouptalk.New(s).Find(t.Context(), room, "", 0, 1); err != nil || total != 1000 {
		t.Errorf("%d kept, %v", total, err)
	}
}
