package conversation_test

import (
	"slices"
	"testing"

	"parley/conversation/branches"
	"parley/conversation/storetest"
)

func TestMessageFollowsTheVersionThatWasChosen(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "old"))
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "old answer"))
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 2, "new"))
	edited := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "new answer")
	edited.Effect.Undo = 1
	both := storetest.Commit(t, s, edited).Conversation

	shows := func(want ...string) {
		t.Helper()
		storetest.Accept(t, s, storetest.Say(storetest.Chat, 9, "is not answered"))
		if got := storetest.Texts(storetest.Begin(t, s, storetest.Chat, 1000).History); !slices.Equal(got, want) {
			t.Fatalf("the conversation is %q instead of %q", got, want)
		}
	}
	choose := func(version int64) {
		t.Helper()
		if err := branches.New(s).Choose(t.Context(), both, version); err != nil {
			t.Fatal(err)
		}
	}
	choose(1)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 3, "on"))
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "on and on"))
	shows("old", "old answer", "on", "on and on")
	choose(3)
	shows("new", "new answer")
	choose(1)
	shows("old", "old answer", "on", "on and on")
}
