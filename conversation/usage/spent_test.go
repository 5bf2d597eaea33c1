package usage_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/steps"
	"parley/conversation/storetest"
	"parley/conversation/usage"
)

// /usage shows the same tokens for a session as the console: also those of its titles and summaries, and none of a conversation
// that was deleted.
func TestUsageOfASessionHasItsCallsInTheBackground(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	u := usage.New(s)
	const key = conversation.Key("telegram:chat:42")
	answer := func(id int) conversation.Committed {
		t.Helper()
		storetest.Accept(t, s, storetest.SayNow(clock, key, id, "hello"))
		run := storetest.Answered(key, storetest.Begin(t, s, key, 1000), "hi")
		run.Model, run.Prompt, run.Cached, run.Completion = "gpt", 100, 40, 10
		done := storetest.Commit(t, s, run)
		err := u.AddBackground(t.Context(), usage.Background{
			Conversation: done.Conversation.ID, Run: run.ID(), Channel: "telegram",
			Steps: []steps.Step{{Kind: steps.Model, Name: "gpt", Purpose: steps.PurposeTitle, At: clock.Now(), Prompt: 7, Completion: 3}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	spent := func(want ...usage.Spent) {
		t.Helper()
		got, err := u.OfSession(t.Context(), key, clock.Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	tokens := func(prompt, cached, completion int64) usage.Spent {
		return usage.Spent{Model: "gpt", Prompt: prompt, Cached: cached, Completion: completion, Cost: usage.Cost{Prompt: prompt, Cached: cached, Completion: completion}}
	}
	first := answer(1)
	spent(tokens(107, 40, 13))
	if _, err := s.Reset(t.Context(), key, false); err != nil {
		t.Fatal(err)
	}
	answer(2)
	spent(tokens(214, 80, 26))
	if _, err := s.Delete(t.Context(), key, first.Conversation.ID); err != nil {
		t.Fatal(err)
	}
	spent(tokens(107, 40, 13))
}
