package bots

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/storetest"
)

// When a platform reports a known group with fewer fields, the others keep their values. The person who added the bot is kept until the
// bot is removed.
func TestGroupKeepsFieldsThatAreNotReportedAgain(t *testing.T) {
	t.Parallel()
	b := New(storetest.New(t))
	bot := conversation.Account{Channel: "discord", ID: "1"}
	joined, left := time.UnixMilli(1000), time.UnixMilli(2000)
	for i, c := range []struct {
		told    Group
		changed bool
		want    Group
	}{
		{Group{Bot: bot, ID: "g", Name: "Kitchen", State: Member, Since: joined, ByID: "7", ByName: "Ann", Lacks: []string{"Send Messages"}}, true,
			Group{Bot: bot, ID: "g", Name: "Kitchen", State: Member, Since: joined, ByID: "7", ByName: "Ann", Lacks: []string{"Send Messages"}}},
		{Group{Bot: bot, ID: "g", State: Member, Since: left}, false,
			Group{Bot: bot, ID: "g", Name: "Kitchen", State: Member, Since: joined, ByID: "7", ByName: "Ann", Lacks: []string{"Send Messages"}}},
		{Group{Bot: bot, ID: "g", State: Removed, Since: left, ByID: "8", ByName: "Bob", Lacks: []string{}}, true,
			Group{Bot: bot, ID: "g", Name: "Kitchen", State: Removed, Since: left, ByID: "8", ByName: "Bob", Lacks: []string{}}},
	} {
		changed, err := b.SetGroup(t.Context(), c.told)
		if err != nil || changed != c.changed {
			t.Errorf("call %d: changed %t, %v", i, changed, err)
		}
		list, err := b.Groups(t.Context())
		if diff := cmp.Diff([]Group{c.want}, list); diff != "" || err != nil {
			t.Errorf("call %d: %s, %v", i, diff, err)
		}
	}
}
