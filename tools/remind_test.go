package tools

import (
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/storetest"
)

// The model asks for a person's time zone once. It is stored for that person only.
func TestRemindAsksForTheTimeZoneOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
	store := storetest.New(t, conversation.Config{Now: func() time.Time { return now }})
	r := registry(t, Reminders(reminders.New(store), nil, func() time.Time { return now })...)
	of := func(person string) Session {
		in := storetest.Ask("telegram:chat:-1", 1, "remind me")
		in.Group, in.Sender = true, conversation.Sender{ID: person, Name: person}
		return Session{Key: "telegram:chat:-1", Asked: in}
	}
	for _, step := range []struct{ person, tool, arguments, want string }{
		{"ada", "remind", `{"text": "call Ben", "at": "2026-11-23T09:00"}`, "error: the time zone of the person is not known: ask them"},
		{"ada", "remind", `{"text": "tea", "in_minutes": 20}`, "reminder 1, Sunday, 22 November 2026, 13:20 (UTC): tea"},
		{"ada", "remind", `{"text": "call Ben", "at": "2026-11-23T09:00", "timezone": "Berlin"}`, "is no IANA time zone"},
		{"ada", "remind", `{"text": "call Ben", "at": "2026-11-23T09:00", "timezone": "Europe/Berlin"}`, "reminder 2, Monday, 23 November 2026, 09:00 (Europe/Berlin): call Ben"},
		{"ada", "remind", `{"text": "stand up", "at": "2026-11-23T08:00", "every": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"}`, "08:00 (Europe/Berlin), and then FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR: stand up"},
		{"ben", "remind", `{"text": "call Ada", "at": "2026-11-23T09:00"}`, "is not known"},
		{"ada", "remind", `{"text": "call Ben", "at": "2026-11-20T09:00"}`, "is past"},
		{"ada", "remind", `{"text": " ", "in_minutes": 5}`, "text must have"},
		{"ada", "remind", `{"text": "x"}`, "give either"},
		{"ada", "remind", `{"text": "x", "in_minutes": -4}`, "in_minutes must be"},
		{"ben", "remind", `{"text": "the eggs", "in_minutes": 0.5}`, "reminder 4, Sunday, 22 November 2026, 13:00 (UTC): the eggs"},
		{"ben", "reminders", `{"delete": 4}`, "Reminder 4 is deleted."},
		{"ben", "reminders", `{}`, "set no reminders"},
		{"ben", "reminders", `{"delete": 2}`, "has no reminder 2"},
		{"ada", "reminders", `{"delete": 2}`, "Reminder 2 is deleted."},
		{"ada", "reminders", `{}`, "reminder 1, Sunday, 22 November 2026, 13:20 (UTC): tea\nreminder 3, Monday"},
	} {
		got, _ := r.Call(WithSession(t.Context(), of(step.person)), step.tool, step.arguments, time.Minute)
		if !strings.Contains(got.Text, step.want) {
			t.Errorf("%s, %s of %s: %q, want %q", step.person, step.arguments, step.tool, got.Text, step.want)
		}
	}
	if got, err := r.Call(t.Context(), "remind", `{"text": "x", "in_minutes": 5}`, time.Minute); err == nil {
		t.Errorf("without a chat: %q", got.Text)
	}
}
