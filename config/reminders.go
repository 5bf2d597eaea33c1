package config

import (
	"fmt"
	"time"

	"parley/conversation/schedule"
)

// Reminders is the [reminders] section.
type Reminders struct {
	// Enabled offers the model the tools that set, list and delete reminders. Those that
	// are set come also without it. Default true.
	Enabled bool `toml:"enabled"`
	// Timezone is the IANA name of the time zone of people who have named none. Empty,
	// the default: they are asked.
	Timezone string `toml:"timezone"`
}

func defaultReminders() Reminders { return Reminders{Enabled: true} }

// CheckKeys reports an unknown time zone.
func (r Reminders) CheckKeys(report func(key, found, allowed string)) {
	if _, err := schedule.Zone(r.Timezone); r.Timezone != "" && err != nil {
		report("timezone", fmt.Sprintf("%q", r.Timezone), `an IANA time zone such as "Europe/Berlin", or empty`)
	}
}

// Zone returns the time zone of people who have named none, nil if they are asked.
func (r Reminders) Zone() *time.Location {
	zone, err := schedule.Zone(r.Timezone)
	if err != nil {
		return nil
	}
	return zone
}
