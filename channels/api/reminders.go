package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/reminders"
	"parley/conversation/schedule"
)

func (c *Channel) reminderOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "list-reminders", Method: http.MethodGet, Path: pathOfSession + "/reminders", Tags: []string{tagSessions},
			Summary: "List the reminders of a session", Description: "Lists them for a session of any channel, whoever set them, the next one first.",
			Errors: []int{http.StatusNotFound},
		}, c.listReminders),
		endpoint(c, huma.Operation{
			OperationID: "set-reminder", Method: http.MethodPost, Path: pathOfSession + "/reminders", Tags: []string{tagSessions},
			DefaultStatus: http.StatusCreated,
			Summary:       "Set a reminder",
			Description: "When it is due, its text becomes a message of the session, which the model answers; the session's events tell of it. " +
				"Times that are missed while the gateway is off give one message. A repeat with the same Idempotency-Key sets nothing more.",
			Errors: []int{http.StatusBadRequest, http.StatusForbidden, http.StatusConflict},
		}, c.setReminder),
		endpoint(c, huma.Operation{
			OperationID: "delete-reminder", Method: http.MethodDelete, Path: pathOfSession + "/reminders/{id}", Tags: []string{tagSessions},
			DefaultStatus: http.StatusNoContent,
			Summary:       "Delete a reminder", Description: "In a session of any channel, whoever set it.", Errors: []int{http.StatusNotFound},
		}, c.deleteReminder),
	}
}

// reminder is something that a session is reminded of.
type reminder struct {
	ID       int              `json:"id" doc:"Its number in the session, from 1"`
	Session  conversation.Key `json:"session"`
	Text     string           `json:"text"`
	Next     time.Time        `json:"next" doc:"When it is due next, by the clock of its time zone"`
	Every    string           `json:"every,omitempty" doc:"The RRULE (RFC 5545) by which it is repeated; absent: it is due once"`
	Timezone string           `json:"timezone"`
	Person   string           `json:"person" doc:"The id, on their channel, of the person who set it"`
	Name     string           `json:"name,omitempty" doc:"The person's name"`
}

func reminderOf(r reminders.Reminder) reminder {
	return reminder{
		ID: r.Number, Session: r.Session, Text: r.Text, Next: r.Next, Every: r.Schedule.Rule, Timezone: r.Next.Location().String(),
		Person: r.Person.ID, Name: r.Person.Name,
	}
}

type reminderList struct {
	Body struct {
		Reminders []reminder `json:"reminders"`
	}
}

func (c *Channel) listReminders(ctx context.Context, in *OfSession) (*reminderList, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	list, err := c.Reminders.All(ctx, key)
	if err == nil && len(list) == 0 {
		_, err = catalog.New(c.Store).Session(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	out := &reminderList{}
	out.Body.Reminders = mapped(list, reminderOf)
	return out, nil
}

type setReminder struct {
	OfSession
	IdempotencyKey string `header:"Idempotency-Key" doc:"A repeat with the same key returns the reminder that the first request set; another request with it is refused. At most 128 letters, digits and . _ ~ : @ + = -" example:"task-42-wake"`
	Body           struct {
		Text      string  `json:"text" maxLength:"2000" doc:"What to say or to do then" example:"Look at the build."`
		At        string  `json:"at,omitempty" doc:"Date and time by the clock of the time zone, or with an offset (RFC 3339); with every, the first time" example:"2026-11-23T09:00"`
		InMinutes float64 `json:"in_minutes,omitempty" minimum:"0" doc:"Instead of at: so many minutes from now"`
		Every     string  `json:"every,omitempty" doc:"To repeat it: an RRULE of RFC 5545, at most every 15 minutes" example:"FREQ=WEEKLY;BYDAY=MO,FR"`
		Timezone  string  `json:"timezone,omitempty" doc:"IANA name; default timezone of [reminders], else UTC" example:"Europe/Berlin"`
	}
}

type oneReminder struct{ Body reminder }

// setReminder sets a reminder in a session of programs. Those of people are set by what they say
// there: the reply goes where they said it.
func (c *Channel) setReminder(ctx context.Context, in *setReminder) (*oneReminder, error) {
	key, err := ownKey(in.Key)
	if err != nil {
		return nil, err
	}
	id, err := parseID(in.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	wanted, err := c.wantedReminder(in)
	if err != nil {
		return nil, err
	}
	call := ""
	if in.IdempotencyKey != "" {
		call = id + " " + string(key)
	}
	set, err := c.Reminders.Add(ctx, conversation.Inbound{Key: key, Sender: conversation.Sender{ID: ChannelName}}, call, wanted)
	if errors.Is(err, reminders.ErrFull) {
		return nil, problem(http.StatusConflict, "The session has %d reminders, and there is no room for more: delete some first.", reminders.MaxReminders)
	}
	if errors.Is(err, reminders.ErrOver) {
		return nil, problem(http.StatusConflict, "The reminder of this Idempotency-Key was due already.")
	}
	if err == nil && !in.asksFor(set, wanted) {
		err = conversation.ErrReused
	}
	if err != nil {
		return nil, err
	}
	return &oneReminder{reminderOf(set)}, nil
}

// asksFor reports whether a request, which wants one reminder now, may have set another one before. Of in_minutes, the
// time depends on when the request came.
func (in *setReminder) asksFor(set, wanted reminders.Reminder) bool {
	s, w := set.Schedule, wanted.Schedule
	return set.Text == wanted.Text && s.Rule == w.Rule && s.Start.Location().String() == w.Start.Location().String() &&
		(in.Body.At == "" || s.Start.Equal(w.Start.Truncate(time.Millisecond)))
}

// wantedReminder reads what a request asks for.
func (c *Channel) wantedReminder(in *setReminder) (r reminders.Reminder, err error) {
	r.Text = strings.ReplaceAll(strings.TrimSpace(in.Body.Text), "\x00", "\uFFFD") // as the store keeps it: a repeat is compared with that
	if n := utf8.RuneCountInString(r.Text); n == 0 || n > reminders.MaxText {
		return r, problem(http.StatusUnprocessableEntity, "body.text has %d characters. Allowed: 1 to %d.", n, reminders.MaxText)
	}
	zone := cmp.Or(c.Zone, time.UTC)
	if in.Body.Timezone != "" {
		if zone, err = schedule.Zone(in.Body.Timezone); err != nil {
			return r, problem(http.StatusUnprocessableEntity, "body.timezone: there is no time zone %q. Allowed: IANA names such as Europe/Berlin.", shorten(in.Body.Timezone))
		}
	}
	now := c.Store.Now()
	r.Schedule, err = schedule.Wanted{At: in.Body.At, InMinutes: in.Body.InMinutes, Every: in.Body.Every}.Schedule(zone, now)
	if err != nil {
		return r, problem(http.StatusUnprocessableEntity, "body: %s.", shorten(err.Error()))
	}
	r.Next, _ = r.Schedule.Next(now)
	return r, nil
}

type deleteReminder struct {
	OfSession
	ID int `path:"id" minimum:"1" doc:"The reminder's id" example:"1"`
}

func (c *Channel) deleteReminder(ctx context.Context, in *deleteReminder) (*struct{}, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	deleted, err := c.Reminders.DeleteAny(ctx, key, in.ID)
	if err == nil && !deleted {
		err = problem(http.StatusNotFound, "The session has no reminder %d. It may have been due meanwhile.", in.ID)
	}
	return nil, err
}
