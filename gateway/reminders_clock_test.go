package gateway

import (
	"log/slog"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
	"parley/conversation/storetest"
)

// The clock of the machine is wrong, and reminders are due by that of the database. A reminder is not looked for all the time, nor
// late by up to a minute.
func TestReminderIsWaitedForByTheClockOfTheStore(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{-time.Hour, 0, time.Hour} {
		now := time.Now().Add(-wrong) // of the database
		store := storetest.New(t, conversation.Config{Now: func() time.Time { return now }})
		g := &Gateway{
			store: store, log: slog.New(slog.DiscardHandler), reminders: reminders.New(store),
			channels: map[string]*served{"api": {scope: conversation.Scope{Channel: "api"}}},
		}
		due := now.Add(30 * time.Second)
		asked := storetest.Say("api:1", 1, "remind me")
		if _, err := g.reminders.Add(t.Context(), asked, "", reminders.Reminder{Text: "tea", Schedule: schedule.Schedule{Start: due}, Next: due}); err != nil {
			t.Fatal(err)
		}
		if wait, err := g.acceptDue(t.Context()); err != nil || wait.Round(time.Second) != 30*time.Second {
			t.Errorf("the machine's clock is ahead by %v: waits %v for a reminder that is due in 30s, %v", wrong, wait, err)
		}
	}
}
