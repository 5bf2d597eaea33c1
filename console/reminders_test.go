package console_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/console"
	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
)

func TestRemindersOfEverybodyAreListedAndDeleted(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, func(deps *console.Deps) { deps.Reminders = reminders.New(deps.Store) })
	if page := d.browser.Page("/console/reminders"); !strings.Contains(page, "Nobody has set a reminder.") {
		t.Errorf("without any: %s", page)
	}
	at := time.Date(2036, 5, 2, 9, 0, 0, 0, time.UTC)
	for _, asked := range []conversation.Inbound{
		{Key: "telegram:chat:42", Sender: conversation.Sender{ID: "42", Name: "Ann <i>"}},
		{Key: "discord:dm:7", Sender: conversation.Sender{ID: "7"}},
	} {
		_, err := reminders.New(d.store).Add(t.Context(), asked, "", reminders.Reminder{
			Text: "call Ben", Schedule: schedule.Schedule{Start: at, Rule: "FREQ=DAILY"}, Next: at,
		})
		d.must(err)
	}
	page := d.browser.Page("/console/reminders")
	for _, want := range []string{"Friday, 2 May 2036, 09:00, UTC", "telegram:chat:42", "Ann &lt;i&gt;", "<td dir=\"auto\">7</td>", "call Ben", "<code>FREQ=DAILY</code>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	_, page = d.submit("/console/reminders/delete", url.Values{"session": {"telegram:chat:42"}, "number": {"1"}})
	if !strings.Contains(page, "Deleted.") || strings.Contains(page, "Ann") || !strings.Contains(page, "discord:dm:7") {
		t.Errorf("after deleting: %s", page)
	}
}
