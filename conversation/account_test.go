package conversation_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/bots"
	"parley/conversation/storetest"
)

var (
	botA = conversation.Account{Channel: "telegram", ID: "7000001"}
	botB = conversation.Account{Channel: "telegram", ID: "7000002"}
)

func TestAcceptDistinguishesMessagesOfTwoBots(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	batch := []conversation.Inbound{storetest.ToBot(botA, 1, "to A"), storetest.ToBot(botB, 1, "to B"), storetest.ToBot(botA, 2, "more to A")}
	if diff := cmp.Diff([]string{"to A", "to B", "more to A"}, storetest.AcceptTexts(t, s, batch...)); diff != "" {
		t.Error(diff)
	}
	if again := storetest.AcceptTexts(t, s, batch...); again != nil {
		t.Errorf("taken twice: %q", again)
	}
}

// Both bots of a group get the same message, with the same session and number. It is stored once, so that
// "/undo" is not done twice.
func TestAcceptTakesAMessageOfAGroupOnce(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	toGroup := func(bot conversation.Account, id int, at int64) conversation.Inbound {
		in := storetest.ToBot(bot, id, bot.ID)
		in.Group, in.At = true, time.UnixMilli(at)
		return in
	}
	if got := storetest.AcceptTexts(t, s, toGroup(botA, 1, 1000), toGroup(botB, 1, 1000)); len(got) != 1 {
		t.Errorf("taken: %q", got)
	}
	if got := storetest.AcceptTexts(t, s, toGroup(botB, 1, 5000)); len(got) != 1 {
		t.Error("a message of another time with the same number was dropped")
	}
}

func TestMessagesAndRepliesWaitForTheirBot(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.ToBot(botA, 1, "one"), storetest.ToBot(botB, 1, "two"))
	for _, bot := range []conversation.Account{botA, botB} {
		scope := conversation.Scope{Channel: bot.Channel, Account: bot.ID}
		turn, err := s.Begin(t.Context(), storetest.Chat, 1000, scope.By())
		if err != nil || len(turn.Waiting) != 1 || turn.Waiting[0].Account != bot.ID {
			t.Fatalf("bot %s begins with %+v, %v", bot, turn.Waiting, err)
		}
		run := storetest.Answered(storetest.Chat, turn, "from "+bot.ID)
		done, err := s.Commit(t.Context(), run)
		if err != nil || len(done.Replies) != 1 || done.Replies[0].Account != bot.ID || done.Replies[0].Channel != "telegram" {
			t.Fatalf("bot %s answers with %+v, %v", bot, done.Replies, err)
		}
		if list, err := s.Waiting(t.Context(), scope); err != nil || len(list) != 0 {
			t.Errorf("bot %s has %+v waiting, %v", bot, list, err)
		}
	}
	for _, bot := range []conversation.Account{botA, botB} {
		scope := conversation.Scope{Channel: bot.Channel, Account: bot.ID}
		due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 10, Accounts: []conversation.Account{scope.By()}})
		if err != nil || len(due) != 1 || due[0].Text != "from "+bot.ID || due[0].Account != bot.ID {
			t.Errorf("bot %s sends %+v, %v", bot, due, err)
		}
		if queue := queueOf(t, s, scope); queue.Due != 1 {
			t.Errorf("the queue of bot %s is %+v", bot, queue)
		}
		if err := s.Mark(t.Context(), due[0], conversation.MarkSent, ""); err != nil {
			t.Fatal(err)
		}
		if keys, err := s.Due(t.Context(), scope); err != nil || len(keys) != 0 {
			t.Errorf("bot %s has %q due, %v", bot, keys, err)
		}
	}
}

// queueOf returns the waiting messages and due replies in a scope.
func queueOf(t *testing.T, s *conversation.Store, scope conversation.Scope) (all bots.Queue) {
	t.Helper()
	queues, err := bots.New(s).Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		if q.Channel == scope.Channel && (scope.Account == "" || q.Account == scope.Account) {
			all.Waiting += q.Waiting
			all.Due += q.Due
		}
	}
	return all
}

// An edit names its message by a number that another bot's message may have, too.
func TestEditsAndDeletionsChangeTheMessageOfTheirBot(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.ToBot(botA, 1, "one"), storetest.ToBot(botB, 1, "two"), storetest.ToBot(botA, 2, "three"), storetest.ToBot(botB, 2, "four"))
	if key, err := s.Edit(t.Context(), botB, "42:1", "zwei", time.UnixMilli(2)); err != nil || key != storetest.Chat {
		t.Fatal(key, err)
	}
	if key, err := s.Withdraw(t.Context(), botA, "42:2"); err != nil || key != storetest.Chat {
		t.Fatal(key, err)
	}
	if key, err := s.Edit(t.Context(), conversation.Account{"telegram", "7000003"}, "42:1", "drei", time.UnixMilli(2)); err != nil || key != "" {
		t.Errorf("a third bot edited a message in %q, %v", key, err)
	}
	var got []string
	for _, in := range storetest.Begin(t, s, storetest.Chat, 1000).Waiting {
		got = append(got, in.Text)
	}
	if diff := cmp.Diff([]string{"one", "zwei", "four"}, got); diff != "" {
		t.Error(diff)
	}
}
