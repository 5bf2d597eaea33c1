package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"parley/conversation/reminders"
	"parley/conversation/schedule"
	"parley/plaintext"
)

var remindersCommand = Command{
	Name: "reminders", Arguments: "[delete NUMBER|timezone NAME]",
	Description: "Show or delete the reminders that you have set here",
	Options: []Option{
		{Name: "change", Description: "What to do; without it, the reminders are shown", Choices: []string{deleteReminder, setZone}},
		{Name: "what", Description: "The number of the reminder, or a time zone such as Europe/Berlin"},
	},
	Private: true, Run: runReminders,
}

// What /reminders can change, as it is written.
const (
	deleteReminder = "delete"
	setZone        = "timezone"
)

func runReminders(ctx context.Context, env Env, r Request) (Result, error) {
	if words, found := cutWords(r.Arguments, deleteReminder); found {
		return removeReminder(ctx, env, r, words)
	}
	if words, found := cutWords(r.Arguments, setZone); found {
		return keepZone(ctx, env, r, words)
	}
	if r.Arguments != "" {
		return Result{Text: "`/reminders` shows your reminders, each with a number; `/reminders delete NUMBER` deletes one, " +
			"`/reminders timezone Europe/Berlin` says by whose clock they go. To set one, say it: “Remind me tomorrow at nine to call Ben.”"}, nil
	}
	list, err := env.Reminders.Of(ctx, r.Session, r.Message.Sender.ID)
	if err != nil {
		return Result{}, err
	}
	if len(list) == 0 {
		return Result{Text: "You have set no reminders here. To set one, say it: “Remind me tomorrow at nine to call Ben.”"}, nil
	}
	return Result{Text: shownReminders(list)}, nil
}

func shownReminders(list []reminders.Reminder) string {
	const text = 200 // characters
	var b strings.Builder
	for _, one := range list {
		repeats := ""
		if one.Schedule.Rule != "" {
			repeats = ", repeated (`" + one.Schedule.Rule + "`)"
		}
		fmt.Fprintf(&b, "- %d. %s, %s%s: %s\n", one.Number, one.Next.Format(schedule.ShownForm), one.Next.Location(), repeats, unmarked(plaintext.ShortLine(one.Text, text)))
	}
	fmt.Fprintf(&b, "\n`/reminders delete %d` deletes one.", list[0].Number)
	return b.String()
}

func removeReminder(ctx context.Context, env Env, r Request, words string) (Result, error) {
	number, err := strconv.Atoi(strings.Trim(words, "#."))
	if err != nil {
		return Result{Text: "Say which: `/reminders delete NUMBER`. `/reminders` shows the numbers."}, nil
	}
	deleted, err := env.Reminders.Delete(ctx, r.Session, r.Message.Sender.ID, number)
	if err != nil {
		return Result{}, err
	}
	if !deleted {
		return Result{Text: fmt.Sprintf("You have no reminder %d here; `/reminders` shows those that you have.", number)}, nil
	}
	return Result{Text: fmt.Sprintf("Reminder %d is deleted.", number)}, nil
}

func keepZone(ctx context.Context, env Env, r Request, words string) (Result, error) {
	zone, err := schedule.Zone(words)
	if err != nil {
		return Result{Text: "That is no time zone. Give its IANA name, such as `/reminders timezone Europe/Berlin`."}, nil
	}
	if err := env.Reminders.SetZone(ctx, r.Message, zone); err != nil {
		return Result{}, err
	}
	return Result{Text: fmt.Sprintf("Times that you name from now on are by the clock of %s. Reminders that are set keep theirs.", zone)}, nil
}
