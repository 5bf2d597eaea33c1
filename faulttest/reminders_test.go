package faulttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

// TestKilledWhenAReminderIsDue kills the gateway before the message of a due reminder is stored, while
// the model answers it, and while the reply is sent. The message is stored and answered once.
func TestKilledWhenAReminderIsDue(t *testing.T) {
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

// A time zone that a person sets on Telegram also applies to reminders that they set on Discord, whether or not their
// private chats are one session.
func TestRemindersUseTheTimeZoneOfALinkedAccount(t *testing.T) {
	t.Parallel()
	const onTelegram, onDiscord = 1, 2
	year := time.Now().Year() + 1
	for _, kind := range []struct {
		name     string
		platform func(*world) platform
	}{
		{"one session", newShared},
		{"a session for each place", func(w *world) platform { return separateSessions{newShared(w).(shared)} }},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, settings{platform: kind.platform})
			w.model.Reply(func(c llmtest.Call) llmtest.Answer {
				last := c.Messages[len(c.Messages)-1]
				if last.Role == "tool" {
					return llmtest.Answer{Text: last.Content}
				}
				return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "a", Name: "remind", Arguments: fmt.Sprintf(`{"text": "stand up", "at": "%d-01-02T09:00"}`, year)}}}
			})
			p := w.startServing()
			defer p.Stop()
			w.say(onTelegram, "/reminders timezone Asia/Tokyo")
			gatewaytest.Await(t, "the command's reply", func() bool { return len(w.platform.sent(onTelegram)) > 0 })
			w.say(onDiscord, "remind me")
			gatewaytest.Await(t, "the answer", func() bool {
				return slices.ContainsFunc(w.platform.sent(onDiscord), func(text string) bool { return strings.Contains(text, "Asia/Tokyo") })
			})
			due := time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC) // nine in Tokyo
			if n := w.count(fmt.Sprintf(`SELECT count(*) FROM reminders WHERE next_at = %d`, due.UnixMilli())); n != 1 {
				t.Errorf("%d reminders are due at nine in Tokyo, want 1", n)
			}
		})
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
