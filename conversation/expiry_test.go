package conversation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const month = 720 * time.Hour

// calendar is a clock that is set by hand.
type calendar struct{ time.Time }

func (c *calendar) now() time.Time { return c.Time }

func (c *calendar) pass(d time.Duration) { c.Time = c.Add(d) }

// mustOpenAged opens a store that lives by the calendar.
func mustOpenAged(t testing.TB) (*Store, *calendar) {
	t.Helper()
	clock := &calendar{time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	return cleanable(mustOpen(t, Config{Now: clock.now})), clock
}

// sayNow is a message that is written at this moment.
func sayNow(clock *calendar, key Key, id int, text string) Inbound {
	in := say(key, id, text)
	in.At = clock.Time
	return in
}

func exchangeNow(t testing.TB, s *Store, clock *calendar, key Key, id int, text string) {
	t.Helper()
	mustAccept(t, s, sayNow(clock, key, id, text))
	mustCommit(t, s, answered(key, s.Expire(mustBegin(t, s, key, 1000), Limits{Rest: month}), "answer to "+text))
}

func titlesOf(t testing.TB, s *Store, key Key) (list []string) {
	t.Helper()
	all, _, err := s.Conversations(t.Context(), ConversationQuery{Key: key, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		page, err := s.Messages(t.Context(), MessageQuery{Conversation: c.ID, Turns: 1})
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

// Who comes back after a month begins with a clean page, and finds the old talk
// in the list.
func TestAfterAMonthAConversationIsArchivedAndTheNextBegins(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	exchangeNow(t, s, clock, chat, 1, "winter")
	clock.pass(month + time.Hour)
	mustAccept(t, s, sayNow(clock, chat, 2, "spring"))
	turn := s.Expire(mustBegin(t, s, chat, 1000), Limits{Rest: month})
	if len(turn.History) != 0 || turn.Older != 0 {
		t.Errorf("the model is shown %q, and %d older", texts(turn.History), turn.Older)
	}
	if turn.Conversation.Rested != month+time.Hour {
		t.Errorf("it has rested for %v", turn.Conversation.Rested)
	}
	if got := titlesOf(t, s, chat); !cmp.Equal(got, []string{"winter (active)"}) {
		t.Errorf("before the answer is stored: %q", got)
	}
	done, err := s.Commit(t.Context(), answered(chat, turn, "hello again"))
	if err != nil {
		t.Fatal(err)
	}
	if done.Conversation.Rested != 0 || done.Conversation.ID != turn.Conversation.ID || done.Messages[0].Seq != 1 {
		t.Errorf("stored as %+v, from message %d on", done.Conversation, done.Messages[0].Seq)
	}
	if got := titlesOf(t, s, chat); !cmp.Equal(got, []string{"spring (active)", "winter"}) {
		t.Errorf("after it: %q", got)
	}
	exchangeNow(t, s, clock, chat, 3, "more of spring")
	if list, _, _ := s.Conversations(t.Context(), ConversationQuery{Key: chat, Limit: 9}); len(list) != 2 || list[0].Messages != 4 {
		t.Errorf("the talk does not go on in the new conversation: %+v", list)
	}
}

func TestAConversationInUseDoesNotExpire(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	exchangeNow(t, s, clock, chat, 1, "begun")
	for i := range 5 {
		clock.pass(month)
		exchangeNow(t, s, clock, chat, 2+i, "and again")
	}
	if list, _, _ := s.Conversations(t.Context(), ConversationQuery{Key: chat, Limit: 9}); len(list) != 1 {
		t.Errorf("%d conversations, want the one that was used every month", len(list))
	}
}

// What was written before the gateway was switched off for two months is
// answered with what it was about.
func TestTheGatewaysAbsenceIsNoRest(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	exchangeNow(t, s, clock, chat, 1, "question")
	clock.pass(time.Hour)
	mustAccept(t, s, sayNow(clock, chat, 2, "and another"))
	clock.pass(2 * month)
	if turn := s.Expire(mustBegin(t, s, chat, 1000), Limits{Rest: month}); len(turn.History) != 2 {
		t.Errorf("the model is shown %q", texts(turn.History))
	}
}

func TestWhatDoesNotExpire(t *testing.T) {
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
			s, clock := mustOpenAged(t)
			exchangeNow(t, s, clock, chat, 1, "old")
			clock.pass(tt.rest)
			in := sayNow(clock, chat, 2, "new")
			in.At = in.At.Add(tt.ahead)
			mustAccept(t, s, in)
			if turn := s.Expire(mustBegin(t, s, chat, 1000), Limits{Rest: tt.limit}); len(turn.History) != 2 {
				t.Errorf("a new conversation begins after %v", turn.Conversation.Rested)
			}
		})
	}
}

// Who resumes an old conversation means to go on with it.
func TestAResumedConversationHasNotRested(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	exchangeNow(t, s, clock, chat, 1, "old")
	old, _ := s.Active(t.Context(), chat)
	clock.pass(2 * month)
	exchangeNow(t, s, clock, chat, 2, "new")
	if err := s.Resume(t.Context(), chat, old.ID); err != nil {
		t.Fatal(err)
	}
	mustAccept(t, s, sayNow(clock, chat, 3, "where were we"))
	if turn := s.Expire(mustBegin(t, s, chat, 1000), Limits{Rest: month}); turn.Conversation.ID != old.ID || len(turn.History) != 2 {
		t.Errorf("it went on in %+v", turn.Conversation)
	}
}

// The operator may delete the old conversation while the answer is made.
func TestTheNextConversationBeginsAlsoWhenTheOldOneIsGone(t *testing.T) {
	t.Parallel()
	s, clock := mustOpenAged(t)
	exchangeNow(t, s, clock, chat, 1, "old")
	clock.pass(2 * month)
	mustAccept(t, s, sayNow(clock, chat, 2, "new"))
	turn := s.Expire(mustBegin(t, s, chat, 1000), Limits{Rest: month})
	mustClean(t, s, month, month)
	mustCommit(t, s, answered(chat, turn, "answer"))
	if got := titlesOf(t, s, chat); !cmp.Equal(got, []string{"new (active)"}) {
		t.Errorf("got %q", got)
	}
}
