package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
	"parley/pages"
)

// settingsPage is the page on which a chat's instructions are changed and its reminders deleted.
type settingsPage struct {
	Side          side
	Title, URL    string
	Done, Problem string // what was just done, or why it was not done; "" for nothing
	Instructions  string
	Reminders     []shownReminder
}

// shownReminder is a reminder as the page shows it.
type shownReminder struct{ reminders.Reminder }

// When returns when the reminder is due next, by the clock of its zone.
func (r shownReminder) When() string {
	return r.Next.Format(schedule.ShownForm) + ", " + r.Next.Location().String()
}

// showSettings shows the instructions and reminders of a chat.
func (c *Channel) showSettings(w http.ResponseWriter, r *http.Request) {
	name, ok := chatName(w, r)
	if !ok {
		return
	}
	active, err := c.Store.Active(r.Context(), keyOf(name))
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.answerSettings(w, r, name, http.StatusOK, settingsPage{
		Done: settingsDone[r.URL.Query().Get("done")], Instructions: strings.Join(active.State.Instructions, "\n\n"),
	})
}

// settingsDone are the sentences for what was just done, by the word in the address.
var settingsDone = map[string]string{
	"saved":   "The instructions are saved. They hold from the next answer on.",
	"removed": "The instructions are removed.",
	"deleted": "The reminder is deleted.",
}

// answerSettings answers with the page, to which it adds what it shows beside the instructions.
func (c *Channel) answerSettings(w http.ResponseWriter, r *http.Request, name string, status int, p settingsPage) {
	p.Title, p.URL = "Instructions and reminders", "/chat/"+name
	list, err := c.Reminders.Of(r.Context(), keyOf(name), personID)
	if err == nil {
		p.Side, err = c.side(r, p.URL)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	for _, one := range list {
		p.Reminders = append(p.Reminders, shownReminder{one})
	}
	frame := pages.Frame{Title: p.Title, Section: "chat", Styles: []string{"chat/chat.css"}, Scripts: []string{"chat/main.js"}, Body: p}
	if err := templates.Page(w, status, "settings.html", frame); err != nil {
		c.fail(w, r, err)
	}
}

// setInstructions replaces the instructions of a chat, or removes them.
func (c *Channel) setInstructions(w http.ResponseWriter, r *http.Request) {
	name, ok := chatName(w, r)
	if !ok {
		return
	}
	text, done := strings.TrimSpace(strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n")), "saved"
	if r.PostFormValue("clear") != "" || text == "" {
		text, done = "", "removed"
	}
	err := c.Store.SetInstructions(r.Context(), keyOf(name), text)
	if errors.Is(err, conversation.ErrInvalid) {
		c.answerSettings(w, r, name, http.StatusUnprocessableEntity, settingsPage{
			Instructions: text, Problem: fmt.Sprintf("The instructions are too long: they have %d bytes, and 16384 are allowed. Nothing was changed.", len(text)),
		})
		return
	}
	if err == nil {
		c.Edited(keyOf(name))
	}
	c.answerChange(w, r, "/chat/"+name+"/settings?done="+done, nil, err)
}

// deleteReminder deletes a reminder of a chat. One that is gone already is deleted.
func (c *Channel) deleteReminder(w http.ResponseWriter, r *http.Request) {
	name, ok := chatName(w, r)
	if !ok {
		return
	}
	number, err := strconv.Atoi(r.PostFormValue("number"))
	if err != nil {
		c.fail(w, r, conversation.ErrNotFound)
		return
	}
	_, err = c.Reminders.Delete(r.Context(), keyOf(name), personID, number)
	c.answerChange(w, r, "/chat/"+name+"/settings?done=deleted", nil, err)
}
