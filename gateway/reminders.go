package gateway

import (
	"context"
	"errors"
	"time"

	"parley/channels"
	"parley/conversation"
)

// The clock may be set, the machine may sleep, and another process may add a reminder, so
// the reminders are looked at again after reminderLook even if none is due. After a failure
// they are looked at after reminderRetry.
const (
	reminderLook  = time.Minute
	reminderRetry = 5 * time.Second
)

// runReminders accepts a message for each reminder when it is due, until ctx ends.
func (g *Gateway) runReminders(ctx context.Context) {
	failing := false
	for {
		wait, err := g.acceptDue(ctx)
		if err != nil && ctx.Err() == nil {
			if !failing {
				g.log.Warn("reminders not accepted, trying again", "wait", reminderRetry, "error", err)
			}
			wait = reminderRetry
		}
		failing = err != nil
		select {
		case <-time.After(wait):
		case <-g.reminders.Added():
		case <-ctx.Done():
			return
		}
	}
}

// acceptDue accepts the messages of the reminders that are due, and returns for how long
// none is. A reminder whose message can't be stored does not hold up the others.
func (g *Gateway) acceptDue(ctx context.Context) (time.Duration, error) {
	due, err := g.reminders.Due(ctx, g.servesPlace)
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, in := range due {
		channel := g.channels[in.Channel()]
		in.Keep = channel.keeps
		if c, ok := channel.Source.(channels.Readdresser); ok {
			in.Address = c.Readdress(in)
		}
		if err := g.accept(ctx, nil, in); err != nil {
			failed = append(failed, err)
			continue
		}
		g.log.Info("reminder due", "session", in.Key, "reminder", in.Options.Reminder, "due", in.Reminder.Due)
	}
	if len(failed) > 0 {
		return 0, errors.Join(failed...)
	}
	next, err := g.reminders.Next(ctx, g.servesPlace)
	if err != nil || next.IsZero() {
		return reminderLook, err
	}
	return min(max(next.Sub(g.store.Now()), 0), reminderLook), nil
}

// servesPlace reports whether this process answers what comes from a place by an account.
func (g *Gateway) servesPlace(account conversation.Account, place conversation.Key) bool {
	c := g.channels[account.Channel]
	return c != nil && c.scope.By().Serves(account) && (c.scope.Key == "" || c.scope.Key == place)
}
