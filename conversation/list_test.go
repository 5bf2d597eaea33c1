package conversation

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func keys(sessions []Session) []string {
	var list []string
	for _, s := range sessions {
		list = append(list, string(s.Key))
	}
	return list
}

// The operator finds a chat by what people call it, by what was talked about,
// or by its channel, and sees the one that was used last first.
func TestSessionsAreListedAndFiltered(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	for i, key := range []Key{"telegram:chat:1", "discord:dm:2", "telegram:chat:3"} {
		in := say(key, i, "100% of _everything_")
		in.Place = map[Key]string{"discord:dm:2": "Zoë's kitchen"}[key]
		mustAccept(t, s, in)
		run := answered(key, mustBegin(t, s, key, 1000), "yes")
		run.Title = map[Key]string{"telegram:chat:3": "100% wool"}[key]
		mustCommit(t, s, run)
	}
	mustAccept(t, s, say("telegram:chat:4", 9, "waits")) // not answered yet
	if _, err := s.Archive(t.Context(), "telegram:chat:1", ""); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		query SessionQuery
		want  []string
	}{
		{SessionQuery{}, []string{"telegram:chat:4", "telegram:chat:3", "discord:dm:2", "telegram:chat:1"}},
		{SessionQuery{Limit: 2}, []string{"telegram:chat:4", "telegram:chat:3"}},
		{SessionQuery{Channel: "discord"}, []string{"discord:dm:2"}},
		{SessionQuery{Text: "KITCHEN"}, []string{"discord:dm:2"}},
		{SessionQuery{Text: "100%"}, []string{"telegram:chat:3"}}, // a title; % is no wildcard
		{SessionQuery{Text: "_"}, nil},
		{SessionQuery{Archived: true}, []string{"telegram:chat:1"}},
	} {
		list, _, err := s.Sessions(t.Context(), tt.query)
		if diff := cmp.Diff(tt.want, keys(list)); diff != "" || err != nil {
			t.Errorf("%+v: %v %s", tt.query, err, diff)
		}
	}
	got, err := s.Session(t.Context(), "telegram:chat:4")
	if err != nil || got.Waiting != 1 || got.Conversations != 0 {
		t.Errorf("a session whose first message waits: %+v, %v", got, err)
	}
	if _, err := s.Session(t.Context(), "telegram:chat:99"); !errors.Is(err, ErrNoSession) {
		t.Errorf("an unknown session: %v", err)
	}
}

// Nobody types 36 characters; but a beginning that fits two must not pick one.
func TestAConversationIsFoundByTheBeginningOfItsID(t *testing.T) {
	t.Parallel()
	s := mustOpen(t)
	exchange(t, s, "telegram:chat:1", 1)
	first, _ := s.Active(t.Context(), "telegram:chat:1")
	for _, id := range []string{first.ID, first.ID[:30], strings.ToUpper(first.ID)} {
		if c, err := s.Find(t.Context(), id); err != nil || c.ID != first.ID {
			t.Errorf("%s: found %+v, %v", id, c, err)
		}
	}
	exchange(t, s, "telegram:chat:2", 1)
	if _, err := s.Find(t.Context(), "0"); err == nil || !strings.Contains(err.Error(), "several conversations") {
		t.Errorf("an ambiguous id gave %v", err)
	}
	for _, id := range []string{"", "ffffffff", "' OR 1 = 1 --"} {
		if _, err := s.Find(t.Context(), id); err == nil {
			t.Errorf("%q was found", id)
		}
	}
}
