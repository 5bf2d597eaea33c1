package faulttest

import (
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
	"parley/gateway/gatewaytest"
)

// TestRemindersAroundAKill kills the gateway when a reminder becomes due: before its message
// is stored, while the model answers, and while the reply is sent. The message is stored
// once, and answered.
func TestRemindersAroundAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.startServing()
	w.say(1, "hello")
	w.awaitAnswer(1, "hello")
	p.Stop()

	// The reminder is due when the next gateway starts, which never lives long enough to
	// answer it.
	w.addReminder(time.Now().Add(-3*time.Hour), "FREQ=HOURLY")
	held := w.holdModel("stand up")
	w.startServing().Kill() // perhaps before the reminder was read
	p = w.startServing()
	w.awaitReached("the model", held)
	p.Kill()
	held.Open()
	p = w.startServing()
	gatewaytest.Await(t, "the reminder", func() bool { return len(w.reminded()) > 0 })
	p.Stop()
	if n := w.count(`SELECT count(*) FROM messages WHERE role = 'user' AND content LIKE '%stand up'`); n != 1 {
		t.Errorf("%d messages of the reminder are stored, want 1", n)
	}
	if n := w.count(`SELECT count(*) FROM reminders WHERE next_at > unixepoch() * 1000`); n != 1 {
		t.Error("the reminder was not moved on to its next time")
	}
	if got := w.reminded(); len(got) != 1 {
		t.Errorf("the chat was reminded by %+v, want one reply", got)
	}
}

// addReminder sets a reminder in the first chat, while no gateway runs.
func (w *world) addReminder(start time.Time, rule string) {
	w.t.Helper()
	store, err := conversation.Open(w.t.Context(), conversation.Config{Path: w.gw.Database})
	w.must(err)
	defer store.Close()
	asked := conversation.Inbound{Key: "telegram:chat:1", Account: "7000001", Address: `{"chat":1}`}
	_, err = reminders.New(store).Add(w.t.Context(), asked, "", reminders.Reminder{
		Text: "stand up", Schedule: schedule.Schedule{Start: start, Rule: rule}, Next: start,
	})
	w.must(err)
}

// reminded returns the replies to the reminder.
func (w *world) reminded() (replies []telegramtest.Message) {
	for _, m := range w.telegram.Sent() {
		if m.Text != "re hello" {
			replies = append(replies, m)
		}
	}
	return replies
}
