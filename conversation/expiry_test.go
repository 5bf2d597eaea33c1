package conversation_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/retention"
	"parley/conversation/state"
	"parley/conversation/storetest"
)

const (
	day   = 24 * time.Hour
	month = 30 * day
)

// clean deletes what the rules of retention no longer keep.
func clean(t testing.TB, r *retention.Retention, rules retention.Rules) {
	t.Helper()
	if _, err := r.Clean(t.Context(), rules, func(retention.Outdated) {}); err != nil {
		t.Fatal(err)
	}
}

func titlesOf(t testing.TB, s *conversation.Store, key conversation.Key) (list []string) {
	t.Helper()
	all, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: key, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		page, err := s.Messages(t.Context(), conversation.MessageQuery{Conversation: c.ID, Turns: 1})
		if err != nil {
			t.Fatal(err)
		}
		title := page.Messages[0].Content
		if c.Active {
			title += " (active)"
		}
		list = append(list, title)
	}
	return list
}

// After a month, a message begins a new conversation. The old one is in the list.
func TestAfterAMonthAConversationIsArchivedAndTheNextBegins(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	storetest.TurnNow(t, s, clock, storetest.Chat, 1, "winter")
	clock.Pass(month + time.Hour)
	storetest.Accept(t, s, storetest.SayNow(clock, storetest.Chat, 2, "spring"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000).Expire(state.Limits{Idle: month}, s.Now())
	if len(turn.History) != 0 || turn.Older != 0 {
		t.Errorf("the model is shown %q, and %d older", storetest.Texts(turn.History), turn.Older)
	}
	if turn.Conversation.Idle != month+time.Hour {
		t.Errorf("it was idle for %v", turn.Conversation.Idle)
	}
	if got := titlesOf(t, s, storetest.Chat); !cmp.Equal(got, []string{"winter (active)"}) {
		t.Errorf("before the answer is stored: %q", got)
	}
	done, err := s.Commit(t.Context(), storetest.Answered(storetest.Chat, turn, "hello again"))
	if err != nil {
		t.Fatal(err)
	}
	if done.Conversation.Idle != 0 || done.Conversation.ID != turn.Conversation.ID || done.Messages[0].Seq != 1 {
		t.Errorf("stored as %+v, from message %d on", done.Conversation, done.Messages[0].Seq)
	}
	if got := titlesOf(t, s, storetest.Chat); !cmp.Equal(got, []string{"spring (active)", "winter"}) {
		t.Errorf("after it: %q", got)
	}
	storetest.TurnNow(t, s, clock, storetest.Chat, 3, "more of spring")
	if list, _, _ := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: storetest.Chat, Limit: 9}); len(list) != 2 || list[0].Messages != 4 {
		t.Errorf("the next message is not in the new conversation: %+v", list)
	}
}

func TestAConversationInUseDoesNotExpire(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	storetest.TurnNow(t, s, clock, storetest.Chat, 1, "begun")
	for i := range 5 {
		clock.Pass(month)
		storetest.TurnNow(t, s, clock, storetest.Chat, 2+i, "and again")
	}
	if list, _, _ := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: storetest.Chat, Limit: 9}); len(list) != 1 {
		t.Errorf("%d conversations, want the one that was used every month", len(list))
	}
}

// A message from before the gateway was off for two months is answered in its conversation.
func TestTimeWithoutAGatewayDoesNotCountAsIdle(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	storetest.TurnNow(t, s, clock, storetest.Chat, 1, "question")
	clock.Pass(time.Hour)
	storetest.Accept(t, s, storetest.SayNow(clock, storetest.Chat, 2, "and another"))
	clock.Pass(2 * month)
	if turn := storetest.Begin(t, s, storetest.Chat, 1000).Expire(state.Limits{Idle: month}, s.Now()); len(turn.History) != 2 {
		t.Errorf("the model is shown %q", storetest.Texts(turn.History))
	}
}

func TestConversationsThatDoNotExpire(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit time.Duration
		rest  time.Duration
		ahead time.Duration // of the platform's clock
	}{
		"where the configuration says never":      {limit: 0, rest: 100 * month},
		"at the limit":                            {limit: month, rest: month},
		"by a platform's clock that is far ahead": {limit: month, rest: time.Hour, ahead: 100 * month},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := storetest.NewAged(t)
			storetest.TurnNow(t, s, clock, storetest.Chat, 1, "old")
			clock.Pass(tt.rest)
			in := storetest.SayNow(clock, storetest.Chat, 2, "new")
			in.At = in.At.Add(tt.ahead)
			storetest.Accept(t, s, in)
			if turn := storetest.Begin(t, s, storetest.Chat, 1000).Expire(state.Limits{Idle: tt.limit}, s.Now()); len(turn.History) != 2 {
				t.Errorf("a new conversation begins after %v", turn.Conversation.Idle)
			}
		})
	}
}

// A conversation that was resumed does not expire with the next message.
func TestResumedConversationDoesNotExpire(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	storetest.TurnNow(t, s, clock, storetest.Chat, 1, "old")
	old, _ := s.Active(t.Context(), storetest.Chat)
	clock.Pass(2 * month)
	storetest.TurnNow(t, s, clock, storetest.Chat, 2, "new")
	if err := s.Resume(t.Context(), storetest.Chat, old.ID); err != nil {
		t.Fatal(err)
	}
	storetest.Accept(t, s, storetest.SayNow(clock, storetest.Chat, 3, "where were we"))
	if turn := storetest.Begin(t, s, storetest.Chat, 1000).Expire(state.Limits{Idle: month}, s.Now()); turn.Conversation.ID != old.ID || len(turn.History) != 2 {
		t.Errorf("it went on in %+v", turn.Conversation)
	}
}

// The next conversation begins even if the operator deletes the expired one during the run.
func TestNextConversationBeginsWhenTheExpiredOneWasDeleted(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	r := retention.New(s)
	storetest.TurnNow(t, s, clock, storetest.Chat, 1, "old")
	clock.Pass(2 * month)
	storetest.Accept(t, s, storetest.SayNow(clock, storetest.Chat, 2, "new"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000).Expire(state.Limits{Idle: month}, s.Now())
	clean(t, r, retention.Rules{Expiration: month, Retention: month})
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, turn, "answer"))
	if got := titlesOf(t, s, storetest.Chat); !cmp.Equal(got, []string{"new (active)"}) {
		t.Errorf("got %q", got)
	}
}
