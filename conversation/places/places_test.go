package places

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/catalog"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/journal"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
	"parley/conversation/search"
	"parley/conversation/settings"
	"parley/conversation/storetest"
)

// The keys of a group and of the supergroup that it became.
const (
	oldGroup = conversation.Key("telegram:chat:-5")
	newGroup = conversation.Key("telegram:chat:-1005")
)

func readdressed(address string) string {
	if address == "to "+string(oldGroup) {
		return "to " + string(newGroup)
	}
	return address
}

func mustMove(t testing.TB, s *conversation.Store, from, to conversation.Key) Moved {
	t.Helper()
	moved, err := New(s).MovePlace(t.Context(), from, to, readdressed)
	if err != nil {
		t.Fatal(err)
	}
	return moved
}

func mustAdopt(t testing.TB, s *conversation.Store, place, want conversation.Key) {
	t.Helper()
	if session, err := New(s).AdoptPlace(t.Context(), place); err != nil || session != want {
		t.Fatalf("adopted by %q, %v; want %q", session, err, want)
	}
}

// storeTurn stores a message and its answer.
func storeTurn(t testing.TB, s *conversation.Store, key conversation.Key, id int, text string) {
	t.Helper()
	storetest.Accept(t, s, storetest.Say(key, id, text))
	storetest.Commit(t, s, storetest.Answered(key, storetest.Begin(t, s, key, 1000), "re "+text))
}

// seenBy returns what a session's next run sees: its history and waiting messages.
func seenBy(t testing.TB, s *conversation.Store, key conversation.Key) string {
	t.Helper()
	turn, err := s.Peek(t.Context(), key, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range turn.History {
		list = append(list, m.Content)
	}
	for _, in := range turn.Waiting {
		list = append(list, fmt.Sprintf("%s from %s %s", in.Text, in.Origin, in.Address))
	}
	return strings.Join(list, ", ")
}

// While a chat is written to through one process, another process moves the chat, or stores its new name: what is written then is
// in the session that the chat belongs to, in order, and the chat's newest name is kept.
func TestMessagesFollowAPlaceThatAnotherProcessMoves(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	other := storetest.Open(t, s.Path())
	say := func(through *conversation.Store, key conversation.Key, id int, text, place string) conversation.Inbound {
		t.Helper()
		in := storetest.Say(key, id, text)
		in.Place = place
		stored, err := through.Accept(t.Context(), nil, in)
		if err != nil || len(stored) != 1 || stored[0].ID == 0 {
			t.Fatalf("%q: stored %+v, %v", text, stored, err)
		}
		return stored[0]
	}
	named := func(key conversation.Key, want string) {
		t.Helper()
		session, err := catalog.New(s).Session(t.Context(), key)
		if err != nil || session.Place != want {
			t.Errorf("%s is called %q, %v; want %q", key, session.Place, err, want)
		}
	}
	const elsewhere = conversation.Key("telegram:chat:-6")
	say(s, newGroup, 1, "is this the new group?", "Plans")
	say(s, newGroup, 2, "it is", "Plans")
	say(other, newGroup, 3, "renamed", "Trips")
	say(s, newGroup, 4, "with its old name again", "Plans")
	named(newGroup, "Plans")
	say(s, newGroup, 5, "without a name", "")
	named(newGroup, "Plans")
	storetest.Accept(t, s, storetest.Say(elsewhere, 1, "and over there?"))
	mustMove(t, other, elsewhere, newGroup)
	if in := say(s, newGroup, 6, "after the move", "Plans"); in.Key != elsewhere || in.Origin != newGroup {
		t.Errorf("the message is in %s, from %s", in.Key, in.Origin)
	}
	named(elsewhere, "Plans")
	if in := say(s, elsewhere, 2, "late", ""); in.Key != elsewhere || in.Origin != elsewhere {
		t.Errorf("the late message is in %s, from %s", in.Key, in.Origin)
	}
}

// awaitLock waits until a transaction waits for a lock, or the result is there. SQLite has one writer at a time, so that it need not
// wait.
func awaitLock[T any](t *testing.T, s *conversation.Store, result chan T) {
	t.Helper()
	for waiting := 0; storetest.OnPostgres() && waiting == 0 && len(result) == 0; time.Sleep(time.Millisecond) {
		if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (
			SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waiting); err != nil {
			t.Error(err)
			return
		}
	}
}

// A message that another process stores while a place moves belongs to the session of the place, whether or not the place has a
// session of its own.
func TestMessageFollowsAPlaceThatMovesAtTheSameMoment(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} {
		s := storetest.New(t)
		other := storetest.Open(t, s.Path())
		storetest.Accept(t, s, storetest.Say(oldGroup, 1, "our plan"))
		if known {
			storetest.Accept(t, other, storetest.Say(newGroup, 1, "is this the new group?"))
		}
		result := make(chan []conversation.Inbound, 1)
		var once sync.Once
		_, err := New(s).MovePlace(t.Context(), oldGroup, newGroup, func(address string) string {
			once.Do(func() {
				go func() {
					stored, err := other.Accept(t.Context(), nil, storetest.Say(newGroup, 2, "and now?"))
					if err != nil {
						t.Error(err)
					}
					result <- stored
				}()
				awaitLock(t, s, result)
			})
			return readdressed(address)
		})
		if err != nil {
			t.Fatal(err)
		}
		if stored := <-result; len(stored) != 1 || stored[0].Key != oldGroup || stored[0].Origin != newGroup {
			t.Errorf("known %v: stored %+v", known, stored)
		}
	}
}

// The move of a place waits for another process that stores a message there, and then finds the message in the place's own session.
func TestMoveOfAPlaceWaitsForMessagesUnderWay(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(context.Context, db.Tx) error{
		"in a new session": func(ctx context.Context, tx db.Tx) error {
			_, _, err := rows.EnterSession(ctx, tx, string(newGroup), "", 1)
			return err
		},
		"in a known session": func(ctx context.Context, tx db.Tx) error {
			var id int64 // which makes the server execute the statement at once
			return tx.QueryRowContext(ctx, `INSERT INTO inbox (session_id, channel, source_id, address, text, sent_at)
				SELECT id, channel, 'second', 'to it', 'hello?', 1 FROM sessions WHERE key = ? RETURNING id`, string(newGroup)).Scan(&id)
		},
	} {
		s := storetest.New(t)
		other := storetest.Open(t, s.Path())
		if name == "in a known session" {
			storetest.Accept(t, other, storetest.Say(newGroup, 1, "is this the new group?"))
		}
		result := make(chan Moved, 1)
		var once sync.Once
		err := other.DB().WriteSession(t.Context(), string(newGroup), func(ctx context.Context, tx db.Tx) error {
			err := store(ctx, tx)
			once.Do(func() {
				go func() {
					moved, err := New(s).MovePlace(t.Context(), oldGroup, newGroup, readdressed)
					if err != nil {
						t.Error(err)
					}
					result <- moved
				}()
				awaitLock(t, other, result)
			})
			if len(result) > 0 {
				t.Errorf("%s: the place has moved while a message was being stored", name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if moved := <-result; moved != (Moved{IsNew: true, OwnSession: true}) {
			t.Errorf("%s: %+v", name, moved)
		}
	}
}

// Group talk of a place that has no session of its own is in the session that the place belongs to, also from before the move.
func TestGroupTalkFollowsAPlaceThatMoves(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeTurn(t, s, oldGroup, 1, "our plan")
	aside := storetest.Say(newGroup, 1, "we go by train")
	aside.Aside = true
	storetest.Accept(t, s, aside)
	mustMove(t, s, oldGroup, newGroup)
	asked := storetest.Say(newGroup, 2, "and how do we go?")
	asked.Talk.Most = 10
	storetest.Accept(t, s, asked)
	turn := storetest.Begin(t, s, oldGroup, 1000)
	if len(turn.Waiting) != 1 || !strings.Contains(turn.Waiting[0].Overheard, "we go by train") {
		t.Errorf("the message came with %+v", turn.Waiting)
	}
}

func TestMovePlaceKeepsTheSession(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeTurn(t, s, oldGroup, 1, "our plan")
	if moved := mustMove(t, s, oldGroup, newGroup); moved != (Moved{IsNew: true}) {
		t.Errorf("moved: %+v", moved)
	}
	stored, err := s.Accept(t.Context(), nil, storetest.Say(newGroup, 1, "and now?"), storetest.Say(oldGroup, 2, "sent before the move"))
	if err != nil {
		t.Fatal(err)
	}
	for i, origin := range []conversation.Key{newGroup, oldGroup} {
		if in := stored[i]; in.Key != oldGroup || in.Origin != origin || in.Channel() != "telegram" {
			t.Errorf("%q belongs to %s, origin %s", in.Text, in.Key, in.Origin)
		}
	}
	want := "our plan, re our plan, and now? from telegram:chat:-1005 to telegram:chat:-1005, sent before the move from telegram:chat:-5 to telegram:chat:-5"
	if diff := cmp.Diff(want, seenBy(t, s, oldGroup)); diff != "" {
		t.Error(diff)
	}
	if moved := mustMove(t, s, oldGroup, newGroup); moved != (Moved{}) {
		t.Errorf("moved for a second time: %+v", moved)
	}
	if got := seenBy(t, s, oldGroup); !strings.Contains(got, "sent before the move from telegram:chat:-5 to telegram:chat:-1005") {
		t.Errorf("a late message keeps its old address: %s", got)
	}
	if got := seenBy(t, s, newGroup); got != "" {
		t.Errorf("the place has a session of its own: %s", got)
	}
}

// A run that began before the move is committed in the session, and its reply goes to the new place.
func TestMovePlaceDuringARun(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(oldGroup, 1, "our plan"))
	turn := storetest.Begin(t, s, oldGroup, 1000)
	mustMove(t, s, oldGroup, newGroup)
	storetest.Accept(t, s, storetest.Say(newGroup, 1, "and now?"))
	storetest.Commit(t, s, storetest.Answered(oldGroup, turn, "good"))
	if got, want := seenBy(t, s, oldGroup), "our plan, good, and now? from telegram:chat:-1005 to telegram:chat:-1005"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestMovePlaceReaddressesWaitingMessagesAndReplies(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	due := func(id int) conversation.Delivery {
		t.Helper()
		storetest.Accept(t, s, storetest.Say(oldGroup, id, "question"))
		run := storetest.Answered(oldGroup, storetest.Begin(t, s, oldGroup, 1000), "")
		run.Replies = []conversation.Delivery{{Address: "to " + string(oldGroup), Text: fmt.Sprint("reply ", id)}, {Address: "elsewhere", Text: "another"}}
		done, err := s.Commit(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		return done.Replies[0]
	}
	failed := due(1)
	if err := s.Mark(t.Context(), failed, conversation.MarkFailed, "refused"); err != nil {
		t.Fatal(err)
	}
	due(2)
	mustMove(t, s, oldGroup, newGroup)
	list, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: oldGroup, Ready: true, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range list {
		got = append(got, d.Text+" "+d.Address)
	}
	if diff := cmp.Diff([]string{"another elsewhere", "reply 2 to telegram:chat:-1005", "another elsewhere"}, got); diff != "" {
		t.Error(diff)
	}
	if again, err := s.Redeliver(t.Context(), failed.ID); err != nil || again.Address != "to "+string(newGroup) {
		t.Errorf("the failed reply goes %+v, %v", again, err)
	}
}

// Messages from the new place may have been answered before the move was reported.
func TestAdoptPlaceTakesConversationsFromBeforeTheMoveWasKnown(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeTurn(t, s, oldGroup, 1, "our plan")
	storeTurn(t, s, newGroup, 1, "we moved")
	storetest.Accept(t, s, storetest.Say(newGroup, 2, "hello?"))
	storetest.Chores(t, s)
	if moved := mustMove(t, s, oldGroup, newGroup); moved != (Moved{IsNew: true, OwnSession: true}) {
		t.Errorf("moved: %+v", moved)
	}
	if own, err := New(s).OwnSessions(t.Context(), "telegram"); err != nil || len(own) != 1 || own[0] != newGroup {
		t.Fatalf("own sessions %q, %v", own, err)
	}
	mustAdopt(t, s, newGroup, oldGroup)
	mustAdopt(t, s, newGroup, oldGroup)
	if own, err := New(s).OwnSessions(t.Context(), "telegram"); err != nil || len(own) != 0 {
		t.Errorf("own sessions left: %q, %v", own, err)
	}
	if got, want := seenBy(t, s, oldGroup), "our plan, re our plan, hello? from telegram:chat:-1005 to telegram:chat:-1005"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	storetest.Commit(t, s, storetest.Answered(oldGroup, storetest.Begin(t, s, oldGroup, 1000), "here"))
	list, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: oldGroup, Limit: 10})
	if err != nil || len(list) != 2 || !list[0].Active || list[1].Active || list[1].Messages != 2 {
		t.Fatalf("conversations: %+v, %v", list, err)
	}
	if sessions, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Text: "-1005"}); err != nil || len(sessions) != 1 || sessions[0].Key != oldGroup || sessions[0].Messages != 6 {
		t.Errorf("sessions: %+v, %v", sessions, err)
	}
	for _, words := range []string{"moved", "plan"} {
		for key, want := range map[conversation.Key]int{oldGroup: 2, newGroup: 0, "": 2} {
			if found, err := search.New(s).Find(t.Context(), search.Query{Key: key, Words: words, Limit: 10}); err != nil || len(found) != want {
				t.Errorf("%q in %q: found %d messages, %v", words, key, len(found), err)
			}
		}
	}
}

// Reminders, model, agent and pin that people set in a place before its move was known go along to the session that the place
// belongs to.
func TestAdoptPlaceTakesRemindersAndChoices(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	all, now := reminders.New(s), time.Now()
	remind := func(key conversation.Key, text string, due time.Time) {
		t.Helper()
		wanted := reminders.Reminder{Text: text, Schedule: schedule.Schedule{Start: due}, Next: due}
		if _, err := all.Add(t.Context(), storetest.Say(key, 1, "remind me"), "", wanted); err != nil {
			t.Fatal(err)
		}
	}
	choose := func(key conversation.Key, model, agent string) {
		t.Helper()
		if err := settings.Set(t.Context(), s, key, settings.Change{Model: &model, Agent: &agent}); err != nil {
			t.Fatal(err)
		}
	}
	remind(oldGroup, "tea", now.Add(3*time.Hour))
	remind(newGroup, "bread", now.Add(time.Hour))
	remind(newGroup, "milk", now.Add(2*time.Hour))
	choose(oldGroup, "large", "")
	choose(newGroup, "small", "cook")
	if err := catalog.New(s).Pin(t.Context(), newGroup, true); err != nil {
		t.Fatal(err)
	}
	mustMove(t, s, oldGroup, newGroup)
	if list, err := New(s).OwnSessions(t.Context(), "telegram"); err != nil || len(list) != 1 {
		t.Errorf("to be merged: %q, %v", list, err)
	}
	mustAdopt(t, s, newGroup, oldGroup)
	if list, err := New(s).OwnSessions(t.Context(), "telegram"); err != nil || len(list) != 0 {
		t.Errorf("still to be merged: %q, %v", list, err)
	}
	var got []string
	list, err := all.All(t.Context(), oldGroup)
	for _, r := range list {
		got = append(got, fmt.Sprint(r.Number, " ", r.Text))
	}
	if diff := cmp.Diff([]string{"2 bread", "3 milk", "1 tea"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if session, err := catalog.New(s).Session(t.Context(), oldGroup); err != nil || session.Model != "large" || session.Agent != "cook" {
		t.Errorf("chosen: %q and %q, %v", session.Model, session.Agent, err)
	}
	storeTurn(t, s, oldGroup, 2, "our plan")
	pinned := true
	if list, _, err := catalog.New(s).Sessions(t.Context(), catalog.SessionQuery{Pinned: &pinned}); err != nil || len(list) != 1 || list[0].Key != oldGroup {
		t.Errorf("pinned: %+v, %v", list, err)
	}
}

func TestAdoptPlaceContinuesTheOnlyConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeTurn(t, s, newGroup, 1, "we moved")
	mustMove(t, s, oldGroup, newGroup)
	mustAdopt(t, s, newGroup, oldGroup)
	storetest.Accept(t, s, storetest.Say(newGroup, 2, "and now?"))
	if got, want := seenBy(t, s, oldGroup), "we moved, re we moved, and now? from telegram:chat:-1005 to telegram:chat:-1005"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A run of the place's own session, which another process works, is committed where its conversation is by
// then.
func TestAdoptPlaceDuringARunElsewhere(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeTurn(t, s, oldGroup, 1, "our plan")
	storeTurn(t, s, newGroup, 1, "we moved")
	storetest.Accept(t, s, storetest.Say(newGroup, 2, "hello?"))
	turn := storetest.Begin(t, s, newGroup, 1000)
	mustMove(t, s, oldGroup, newGroup)
	mustAdopt(t, s, newGroup, oldGroup)
	storetest.Commit(t, s, storetest.Answered(newGroup, turn, "here"))
	if turn := storetest.Begin(t, s, oldGroup, 1000); len(turn.Waiting) != 0 {
		t.Errorf("%d messages wait that were answered", len(turn.Waiting))
	}
	if list, _, err := catalog.New(s).Conversations(t.Context(), catalog.ConversationQuery{Key: oldGroup, Limit: 10}); err != nil || len(list) != 2 || list[0].Messages+list[1].Messages != 6 {
		t.Errorf("conversations: %+v, %v", list, err)
	}
	if due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: newGroup, Ready: true, Limit: 10}); err != nil || len(due) == 0 {
		t.Errorf("the replies of the place's own session: %+v, %v", due, err)
	}
}

func TestAdoptPlaceLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeTurn(t, s, oldGroup, 1, "our plan")
	mustAdopt(t, s, oldGroup, "")
	mustAdopt(t, s, "telegram:chat:-77", "")
	mustMove(t, s, oldGroup, newGroup)
	mustAdopt(t, s, newGroup, "")
	mustAdopt(t, s, oldGroup, "")
	if got := seenBy(t, s, oldGroup); got != "our plan, re our plan" {
		t.Error(got)
	}
}

func TestPlacesMoveRepeatedly(t *testing.T) {
	t.Parallel()
	const newest = conversation.Key("telegram:chat:-1006")
	for name, moves := range map[string][][2]conversation.Key{
		"in order":     {{oldGroup, newGroup}, {newGroup, newest}},
		"out of order": {{newGroup, newest}, {oldGroup, newGroup}},
		"and back":     {{oldGroup, newGroup}, {newGroup, newest}, {newest, oldGroup}, {newGroup, oldGroup}},
	} {
		s := storetest.New(t)
		for _, move := range moves {
			mustMove(t, s, move[0], move[1])
		}
		for i, key := range []conversation.Key{newest, newGroup, oldGroup} {
			stored, err := s.Accept(t.Context(), nil, storetest.Say(key, i, "hello"))
			if err != nil || stored[0].Key != oldGroup {
				t.Errorf("%s: a message from %s belongs to %+v, %v", name, key, stored, err)
			}
		}
		former, err := New(s).FormerPlaces(t.Context(), newest)
		if diff := cmp.Diff([]conversation.Key{newGroup, oldGroup}, former); diff != "" || err != nil {
			t.Errorf("%s: former places: %s, %v", name, diff, err)
		}
	}
	s := storetest.New(t)
	if _, err := New(s).MovePlace(t.Context(), oldGroup, "discord:channel:1", readdressed); !errors.Is(err, conversation.ErrInvalid) {
		t.Errorf("to another channel: %v", err)
	}
	if _, err := New(s).MovePlace(context.Background(), oldGroup, oldGroup, readdressed); !errors.Is(err, conversation.ErrInvalid) {
		t.Errorf("to where it is: %v", err)
	}
	if former, err := New(s).FormerPlaces(t.Context(), oldGroup); err != nil || len(former) != 0 {
		t.Errorf("a place that never moved was at %q, %v", former, err)
	}
}

// Messages that programs append to the new place are stored in the session.
func TestAppendFollowsAMovedPlace(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeTurn(t, s, oldGroup, 1, "our plan")
	mustMove(t, s, oldGroup, newGroup)
	done, err := s.Append(t.Context(), newGroup, "", conversation.Message{Role: conversation.RoleUser, Content: "noted", Tokens: 1})
	if err != nil || done.Conversation.Messages != 3 {
		t.Errorf("appended to %+v, %v", done.Conversation, err)
	}
}

// A group that is at work, or is asked whether a tool call may be made, at the moment when its move becomes known goes on in the session that
// it belongs to: the question can be answered there, and what the run has done is not done again.
func TestAdoptPlaceTakesRunsUnderWayAndTheirQuestions(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeTurn(t, s, oldGroup, 1, "before")
	storetest.Accept(t, s, storetest.Say(newGroup, 2, "pay"))
	in := storetest.Begin(t, s, newGroup, 1000).Waiting[0]
	run := journal.Run{ID: in.ID, Key: newGroup, Channel: "telegram", Took: []journal.Message{{ID: in.ID}}, StartedAt: time.Now()}
	call := conversation.ToolCall{ID: "a", Name: "pay", Arguments: "{}"}
	if _, err := journal.New(s).AddRound(t.Context(), run, journal.Round{Said: conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{call}}}, nil); err != nil {
		t.Fatal(err)
	}
	all := approvals.New(s)
	ask := approvals.Asking{Run: in.ID, Round: 1, Until: time.Now().Add(time.Hour), Rememberable: true, Calls: []approvals.Call{{ID: "a", Tool: "pay", Arguments: "{}"}}}
	if _, err := all.Ask(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	mustMove(t, s, oldGroup, newGroup)
	mustAdopt(t, s, newGroup, oldGroup)

	open, err := all.Open(t.Context(), oldGroup)
	if err != nil || len(open) != 1 {
		t.Fatalf("open questions: %v, %v", open, err)
	}
	if q, given, err := all.Give(t.Context(), approvals.Answer{ID: open[0].ID, Session: oldGroup, Allow: true, Remember: true, By: "Ada"}); err != nil || !given || q.State != approvals.Allowed {
		t.Errorf("the answer: %v, %t, %v", q, given, err)
	}
	if standing, err := all.Standing(t.Context(), oldGroup); err != nil || len(standing) != 1 {
		t.Errorf("always allowed: %v, %v", standing, err)
	}
	if found, is, err := journal.New(s).Of(t.Context(), oldGroup); err != nil || !is || found.ID != in.ID || len(found.Rounds) != 1 {
		t.Errorf("the journal: %v, %t, %v", found, is, err)
	}
	if list, err := New(s).OwnSessions(t.Context(), "telegram"); err != nil || len(list) != 0 {
		t.Errorf("still to be adopted: %v, %v", list, err)
	}
}

// What was always allowed in the place's own session stays so, unless the other session has it already.
func TestAdoptPlaceTakesStandingApprovals(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storeTurn(t, s, oldGroup, 1, "before")
	storeTurn(t, s, newGroup, 2, "after")
	for _, key := range []conversation.Key{oldGroup, newGroup} {
		for _, tool := range []string{"pay", "look " + string(key)} {
			allow(t, s, key, tool)
		}
	}
	mustMove(t, s, oldGroup, newGroup)
	mustAdopt(t, s, newGroup, oldGroup)
	standing, err := approvals.New(s).Standing(t.Context(), oldGroup)
	var tools []string
	for _, one := range standing {
		tools = append(tools, one.Tool)
	}
	if want := []string{"look " + string(newGroup), "look " + string(oldGroup), "pay"}; err != nil || !slices.Equal(tools, want) {
		t.Errorf("always allowed: %q, %v", tools, err)
	}
}

// allow stores that calls of a tool need no answer in a session any more.
func allow(t testing.TB, s *conversation.Store, key conversation.Key, tool string) {
	t.Helper()
	err := s.DB().Write(t.Context(), func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO session_approvals (session_id, tool, allowed_by, allowed_at)
			VALUES ((SELECT id FROM sessions WHERE key = ?), ?, 'Ada', 1)`, string(key), tool)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
