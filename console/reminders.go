package console

import (
	"net/http"
	"strconv"

	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
)

// maxReminders is how many reminders the page shows.
const maxReminders = 500

// remindersPage is the page of the reminders of all sessions.
type remindersPage struct {
	Reminders []shownReminder
	More      bool // there are more reminders, which are due later
}

// shownReminder is a reminder as the page shows it.
type shownReminder struct{ reminders.Reminder }

// When returns when the reminder is due next, by the clock of its zone.
func (r shownReminder) When() string {
	return r.Next.Format(schedule.ShownForm) + ", " + r.Next.Location().String()
}

// showReminders shows the reminders of all sessions, the next one first.
func (c *Console) showReminders(w http.ResponseWriter, r *http.Request) {
	list, err := c.Reminders.Everywhere(r.Context(), maxReminders+1)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	p := remindersPage{More: len(list) > maxReminders}
	for _, one := range list[:min(len(list), maxReminders)] {
		p.Reminders = append(p.Reminders, shownReminder{one})
	}
	c.show(w, r, "reminders.html", "reminders", "Reminders", p)
}

// deleteReminder deletes the reminder of a session. One that is gone already is deleted.
func (c *Console) deleteReminder(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.Atoi(r.PostFormValue("number"))
	if err != nil {
		c.fail(w, r, conversation.ErrNotFound)
		return
	}
	_, err = c.Reminders.DeleteAny(r.Context(), conversation.Key(r.PostFormValue("session")), number)
	c.answerChange(w, r, "/console/reminders?done=deleted", err)
}
