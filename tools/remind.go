package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"parley/conversation/reminders"
	"parley/conversation/schedule"
)

// Reminders returns the tools by which the model sets, lists and deletes the reminders of the
// person who asks, in the session in which they ask. zone is that of people who have named
// none; nil = they must be asked.
func Reminders(store *reminders.Reminders, zone *time.Location, now func() time.Time) []Tool {
	r := remind{store, zone, now}
	return []Tool{
		{
			Name: "remind",
			Description: "Remind the person, or do something for them, at a later time, once or again and again. When it is due, you are shown the text " +
				"in this chat, and answer here. Work out the date from what they said; current_time tells the present.",
			Parameters: json.RawMessage(`{
				"type": "object",
				"properties": {
					"text": {"type": "string", "description": "what to say or to do then, understandable without this conversation"},
					"at": {"type": "string", "description": "date and time by the person's clock, 2026-11-23T09:00; with every, the first time"},
					"in_minutes": {"type": "number", "exclusiveMinimum": 0, "description": "instead of at: so many minutes from now; 0.5 for half a minute"},
					"every": {"type": "string", "description": "to repeat it: an RRULE of RFC 5545, such as FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR; the hour is that of at"},
					"timezone": {"type": "string", "description": "IANA name such as Europe/Berlin; only if the person said where they are; it is kept for them"}
				},
				"required": ["text"],
				"additionalProperties": false
			}`),
			Call:       Text(r.add),
			Repeatable: true, // by the key of the call
		},
		{
			Name:        "reminders",
			Description: "List the reminders that the person has set in this chat, or delete one.",
			Parameters: json.RawMessage(`{
				"type": "object",
				"properties": {"delete": {"type": "integer", "minimum": 1, "description": "number of the reminder to delete"}},
				"additionalProperties": false
			}`),
			Call:       Text(r.list),
			Repeatable: true,
		},
	}
}

type remind struct {
	store *reminders.Reminders
	zone  *time.Location
	now   func() time.Time
}

// wantedReminder is what the model asks of remind.
type wantedReminder struct {
	Text      string  `json:"text"`
	At        string  `json:"at"`
	InMinutes float64 `json:"in_minutes"`
	Every     string  `json:"every"`
	Timezone  string  `json:"timezone"`
}

var errNoPerson = errors.New("there is no chat that could be reminded")

func (r remind) add(ctx context.Context, arguments json.RawMessage) (string, error) {
	session, ok := SessionOf(ctx)
	if !ok || session.Asked.SourceID == "" {
		return "", errNoPerson
	}
	var w wantedReminder
	if err := json.Unmarshal(arguments, &w); err != nil {
		return "", fmt.Errorf("remind takes an object with text, at or in_minutes, every and timezone: %w", err)
	}
	w.Text = strings.TrimSpace(w.Text)
	if n := utf8.RuneCountInString(w.Text); n == 0 || n > reminders.MaxText {
		return "", fmt.Errorf("text must have 1 to %d characters, and has %d", reminders.MaxText, n)
	}
	zone, err := r.zoneFor(ctx, session, w)
	if err != nil {
		return "", err
	}
	when, err := schedule.Wanted{At: w.At, InMinutes: w.InMinutes, Every: w.Every}.Schedule(zone, r.now())
	if err != nil {
		return "", err
	}
	next, _ := when.Next(r.now())
	set, err := r.store.Add(ctx, session.Asked, CallKeyOf(ctx), reminders.Reminder{Text: w.Text, Schedule: when, Next: next})
	if errors.Is(err, reminders.ErrFull) {
		return "", fmt.Errorf("this chat has %d reminders, and there is no room for more: delete some first", reminders.MaxReminders)
	}
	if errors.Is(err, reminders.ErrOver) {
		return "Set. It was due already, and the person was reminded.", nil
	}
	if err != nil {
		return "", errors.New("the reminder can't be stored now")
	}
	return fmt.Sprintf("Set: %s\nNow it is %s there.", reminderLine(set), r.now().In(zone).Format(schedule.ShownForm)), nil
}

// ZoneOf returns a function that returns the time zone of the person who asks, nil if it is not known.
func ZoneOf(store *reminders.Reminders) func(context.Context) *time.Location {
	return func(ctx context.Context) *time.Location {
		session, ok := SessionOf(ctx)
		if !ok {
			return nil
		}
		zone, err := store.Zone(ctx, session.Asked.Channel(), session.Asked.Sender.ID)
		if err != nil {
			return nil // the time is told by the gateway's clock
		}
		return zone
	}
}

// zoneFor returns the time zone of the person who asks. One that the model names is stored
// for them.
func (r remind) zoneFor(ctx context.Context, session Session, w wantedReminder) (*time.Location, error) {
	if w.Timezone != "" {
		zone, err := schedule.Zone(w.Timezone)
		if err != nil {
			return nil, err
		}
		if err := r.store.SetZone(ctx, session.Asked, zone); err != nil {
			return nil, errors.New("the time zone can't be stored now")
		}
		return zone, nil
	}
	zone, err := r.store.Zone(ctx, session.Asked.Channel(), session.Asked.Sender.ID)
	switch {
	case err != nil:
		return nil, errors.New("the time zone of the person can't be read now")
	case zone != nil:
		return zone, nil
	case r.zone != nil:
		return r.zone, nil
	case w.InMinutes > 0 && w.Every == "":
		return time.UTC, nil
	}
	return nil, errors.New("the time zone of the person is not known: ask them where they are, then call this again with timezone; it is kept")
}

func (r remind) list(ctx context.Context, arguments json.RawMessage) (string, error) {
	session, ok := SessionOf(ctx)
	if !ok {
		return "", errNoPerson
	}
	var a struct {
		Delete int `json:"delete"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return "", fmt.Errorf("reminders takes an object with delete, a number: %w", err)
	}
	person := session.Asked.Sender.ID
	if a.Delete != 0 {
		deleted, err := r.store.Delete(ctx, session.Key, person, a.Delete)
		if err != nil {
			return "", errors.New("the reminder can't be deleted now")
		}
		if !deleted {
			return fmt.Sprintf("The person has no reminder %d in this chat.", a.Delete), nil
		}
		return fmt.Sprintf("Reminder %d is deleted.", a.Delete), nil
	}
	list, err := r.store.Of(ctx, session.Key, person)
	if err != nil {
		return "", errors.New("the reminders can't be read now")
	}
	if len(list) == 0 {
		return "The person has set no reminders in this chat.", nil
	}
	lines := make([]string, len(list))
	for i, one := range list {
		lines[i] = reminderLine(one)
	}
	return strings.Join(lines, "\n"), nil
}

// reminderLine shows a reminder to the model.
func reminderLine(r reminders.Reminder) string {
	line := fmt.Sprintf("reminder %d, %s (%s)", r.Number, r.Next.Format(schedule.ShownForm), r.Next.Location())
	if r.Schedule.Rule != "" {
		line += ", and then " + r.Schedule.Rule
	}
	return line + ": " + r.Text
}
