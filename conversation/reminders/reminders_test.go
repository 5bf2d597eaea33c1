package reminders_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
	"parley/conversation/storetest"
)

const home conversation.Key = "telegram:chat:42"

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newStore(t *testing.T) (*conversation.Store, *storetest.Clock) {
	t.Helper()
	clock := &storetest.Clock{Time: start}
	return storetest.New(t, conversation.Config{Now: clock.Now}), clock
}

// ask returns the message in which Ada asks for a reminder.
func ask() conversation.Inbound {
	in := storetest.Ask(home, 1, "remind me")
	in.Sender = conversation.Sender{ID: "42", Name: "Ada"}
	return in
}

// add adds a reminder that is due an hour after start, and then repeated by a rule.
func add(t *testing.T, r *reminders.Reminders, call, text, rule string) reminders.Reminder {
	t.Helper()
	when := schedule.Schedule{Start: start.Add(time.Hour), Rule: rule}
	added, err := r.Add(t.Context(), ask(), call, reminders.Reminder{Text: text, Schedule: when, Next: when.Start})
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func everything(conversation.Account, conversation.Key) bool { return true }

// due returns the messages of the reminders that are due.
func due(t *testing.T, r *reminders.Reminders) []conversation.Inbound {
	t.Helper()
	list, err := r.Due(t.Context(), everything)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// accepted stores messages and returns those that were not stored before.
func accepted(t *testing.T, s *conversation.Store, list []conversation.Inbound) []conversation.Inbound {
	t.Helper()
	stored, err := s.Accept(t.Context(), nil, list...)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func TestReminderComesOnceWhereItWasAskedFor(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	r := reminders.New(s)
	add(t, r, "", "call Ben", "")
	if next, err := r.Next(t.Context(), everything); err != nil || !next.Equal(start.Add(time.Hour)) {
		t.Errorf("the next one is due at %s, %v", next, err)
	}
	if list := due(t, r); len(list) != 0 {
		t.Fatalf("due too early: %+v", list)
	}
	clock.Pass(time.Hour)
	list := due(t, r)
	again := due(t, reminders.New(s)) // another process sees the same
	got := accepted(t, s, list)
	if len(got) != 1 || got[0].Key != home || got[0].Address != ask().Address || got[0].Sender.Name != "Ada" || !strings.HasSuffix(got[0].Text, "call Ben") {
		t.Fatalf("accepted %+v", got)
	}
	if got := accepted(t, s, again); len(got) != 0 {
		t.Errorf("accepted twice: %+v", got)
	}
	if next, err := r.Next(t.Context(), everything); err != nil || !next.IsZero() {
		t.Errorf("the next one is due at %s, %v", next, err)
	}
	if list, err := r.Of(t.Context(), home, "42"); err != nil || len(list) != 0 {
		t.Errorf("still listed: %+v, %v", list, err)
	}
}

// Five times that were missed while no gateway was running are one message, which says so.
func TestMissedTimesAreOneMessage(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	r := reminders.New(s)
	add(t, r, "", "stand up", "FREQ=HOURLY")
	clock.Pass(5*time.Hour + 30*time.Minute)
	got := accepted(t, s, due(t, r))
	if len(got) != 1 || !strings.Contains(got[0].Text, "is late, since the gateway was not running") || !strings.Contains(got[0].Text, "missed since then: 4") {
		t.Fatalf("accepted %+v", got)
	}
	if next, err := r.Next(t.Context(), everything); err != nil || !next.Equal(start.Add(6*time.Hour)) {
		t.Errorf("the next one is due at %s, %v", next, err)
	}
	clock.Pass(30 * time.Minute)
	if got := accepted(t, s, due(t, r)); len(got) != 1 || !strings.Contains(got[0].Text, "is due") {
		t.Errorf("accepted %+v", got)
	}
}

// A reminder that is deleted when it is due is not sent any more.
func TestDeletedReminderDoesNotCome(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	r := reminders.New(s)
	added := add(t, r, "", "stand up", "FREQ=DAILY")
	clock.Pass(time.Hour)
	list := due(t, r)
	if deleted, err := r.Delete(t.Context(), home, "7", added.Number); err != nil || deleted {
		t.Errorf("somebody else deleted it: %t, %v", deleted, err)
	}
	if deleted, err := r.Delete(t.Context(), home, "42", added.Number); err != nil || !deleted {
		t.Errorf("deleted %t, %v", deleted, err)
	}
	if got := accepted(t, s, list); len(got) != 0 {
		t.Errorf("accepted %+v", got)
	}
}

// Reminders are deleted with their session, but not with one of its conversations.
func TestRemindersAreDeletedWithTheirSession(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	r := reminders.New(s)
	storetest.Turn(t, s, home, 1)
	add(t, r, "", "call Ben", "")
	c, err := s.Active(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		conversation string // "" = all
		left         int
	}{{c.ID, 1}, {"", 0}} {
		if _, err := s.Delete(t.Context(), home, step.conversation); err != nil {
			t.Fatal(err)
		}
		if list, err := r.Of(t.Context(), home, "42"); err != nil || len(list) != step.left {
			t.Errorf("after the deletion of %q: %+v, %v", step.conversation, list, err)
		}
	}
}

// A call that is repeated after a crash sets no second reminder.
func TestRepeatedCallSetsOneReminder(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	r := reminders.New(s)
	first, second := add(t, r, "key", "call Ben", ""), add(t, r, "key", "call Ben", "")
	if third := add(t, r, "another", "call Ben", ""); first.Number != 1 || second.Number != 1 || third.Number != 2 {
		t.Errorf("numbers %d, %d, %d", first.Number, second.Number, third.Number)
	}
}

// A call that is repeated after its reminder was due, and perhaps answered, sets no second one either.
func TestRepeatedCallSetsNoReminderThatWasDue(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	r := reminders.New(s)
	add(t, r, "key", "call Ben", "")
	clock.Pass(time.Hour)
	if got := accepted(t, s, due(t, r)); len(got) != 1 {
		t.Fatalf("accepted %+v", got)
	}
	_, err := r.Add(t.Context(), ask(), "key", reminders.Reminder{Text: "call Ben", Schedule: schedule.Schedule{Start: clock.Now()}, Next: clock.Now()})
	if list := due(t, r); !errors.Is(err, reminders.ErrOver) || len(list) > 0 {
		t.Errorf("it is due again: %+v, %v", list, err)
	}
}

func TestRemindersOfASessionAreLimited(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	r := reminders.New(s)
	for range reminders.MaxReminders {
		add(t, r, "", "stand up", "")
	}
	if _, err := r.Add(t.Context(), ask(), "", reminders.Reminder{Text: "one more", Next: start}); !errors.Is(err, reminders.ErrFull) {
		t.Error(err)
	}
}

// A process leaves the reminders of other bots and of other terminals to the processes that
// serve them.
func TestRemindersOfOtherProcessesWait(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	r := reminders.New(s)
	add(t, r, "", "call Ben", "")
	clock.Pass(2 * time.Hour)
	nothing := func(_ conversation.Account, place conversation.Key) bool { return place != home }
	list, err := r.Due(t.Context(), nothing)
	next, nextErr := r.Next(t.Context(), nothing)
	if err := errors.Join(err, nextErr); err != nil || len(list) != 0 || !next.IsZero() {
		t.Errorf("due %+v, next %s, %v", list, next, err)
	}
}

func TestRemindersAndTimeZonesSurviveARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "conversations.db")
	zone, err := schedule.Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*conversation.Store, *reminders.Reminders) {
		s, err := conversation.Open(context.Background(), conversation.Config{Path: path, Now: func() time.Time { return start }})
		if err != nil {
			t.Fatal(err)
		}
		return s, reminders.New(s)
	}
	s, r := open()
	add(t, r, "", "call Ben", "FREQ=DAILY")
	if err := r.SetZone(t.Context(), ask(), zone); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s, r = open()
	defer s.Close()
	list, err := r.Of(t.Context(), home, "42")
	if err != nil || len(list) != 1 || list[0].Text != "call Ben" || list[0].Schedule.Rule != "FREQ=DAILY" {
		t.Errorf("%+v, %v", list, err)
	}
	if got, err := r.Zone(t.Context(), "telegram", "42"); err != nil || got.String() != "Europe/Berlin" {
		t.Errorf("the zone is %s, %v", got, err)
	}
	if got, err := r.Zone(t.Context(), "telegram", "7"); err != nil || got != nil {
		t.Errorf("the zone of somebody else is %s, %v", got, err)
	}
}

// Linked accounts of a person have one time zone, the one that was set last. Accounts that are not linked
// have separate ones.
func TestLinkedAccountsShareATimeZone(t *testing.T) {
	t.Parallel()
	now := start
	s := storetest.New(t, conversation.Config{Now: func() time.Time { return now }})
	r := reminders.New(s, []string{"telegram:7"}, []string{"discord:99", "telegram:42"})
	set := func(channel, person, name string) {
		t.Helper()
		now = now.Add(time.Minute)
		zone, err := schedule.Zone(name)
		if err == nil {
			err = r.SetZone(t.Context(), conversation.Inbound{Key: conversation.Key(channel + ":chat:1"), Sender: conversation.Sender{ID: person}}, zone)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(channel, person, want string) {
		t.Helper()
		zone, err := r.Zone(t.Context(), channel, person)
		got := ""
		if zone != nil {
			got = zone.String()
		}
		if err != nil || got != want {
			t.Errorf("the zone of %s:%s is %q, %v, want %q", channel, person, got, err, want)
		}
	}
	set("telegram", "42", "Europe/Berlin")
	expect("discord", "99", "Europe/Berlin")
	expect("telegram", "42", "Europe/Berlin")
	expect("telegram", "7", "")
	expect("discord", "42", "")
	set("discord", "99", "Asia/Tokyo")
	set("telegram", "7", "UTC")
	expect("telegram", "42", "Asia/Tokyo")
	expect("telegram", "7", "UTC")
}
