package reminders

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/schedule"
)

// Zone returns the time zone of a person on a channel, nil when it is not known. It is the one
// that was stored last for any account of the person.
func (r *Reminders) Zone(ctx context.Context, channel, person string) (*time.Location, error) {
	var name string
	var newest int64
	for _, account := range r.accountsOf(channel, person) {
		channel, id, _ := strings.Cut(account, ":")
		var zone string
		var at int64
		err := r.db.QueryRowContext(ctx, `SELECT zone, updated_at FROM time_zones WHERE channel = ? AND person = ?`, channel, id).Scan(&zone, &at)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return nil, db.Explain(err)
		case name == "" || at > newest:
			name, newest = zone, at
		}
	}
	if name == "" {
		return nil, nil
	}
	zone, err := schedule.Zone(name)
	if err != nil { // the list of zones of this machine is another one
		return nil, nil
	}
	return zone, nil
}

// accountsOf returns all accounts of the person to whom one belongs, as CHANNEL:ID.
func (r *Reminders) accountsOf(channel, person string) []string {
	account := channel + ":" + person
	for _, accounts := range r.people {
		if slices.Contains(accounts, account) {
			return accounts
		}
	}
	return []string{account}
}

// SetZone stores the time zone of the sender of a message, which holds for all accounts of the
// person.
func (r *Reminders) SetZone(ctx context.Context, of conversation.Inbound, zone *time.Location) error {
	return r.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO time_zones (channel, person, zone, updated_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (channel, person) DO UPDATE SET zone = excluded.zone, updated_at = excluded.updated_at`,
			of.Channel(), of.Sender.ID, zone.String(), db.Millis(r.store.Now()))
		return err
	})
}
