package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"parley/conversation/schedule"
)

// CurrentTime returns the tool that tells the time by the clock now. zoneOf returns the time
// zone of the person who asks, nil when it is not known; nil = no zones are known.
func CurrentTime(now func() time.Time, zoneOf func(context.Context) *time.Location) Tool {
	return Tool{
		Name:        "current_time",
		Repeatable:  true,
		ReadOnly:    true,
		Description: "The current date and time, with weekday and time zone.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {
				"timezone": {"type": "string", "description": "IANA name such as Europe/Berlin; left out: that of the person if it is known, else the gateway's"}
			},
			"additionalProperties": false
		}`),
		Call: Text(func(ctx context.Context, arguments json.RawMessage) (string, error) {
			var a struct {
				Timezone string `json:"timezone"`
			}
			if err := json.Unmarshal(arguments, &a); err != nil {
				return "", fmt.Errorf("current_time takes an object with a timezone: %w", err)
			}
			t := now()
			if zoneOf != nil && a.Timezone == "" {
				if zone := zoneOf(ctx); zone != nil {
					t = t.In(zone)
				}
			}
			if a.Timezone != "" {
				zone, err := schedule.Zone(a.Timezone)
				if err != nil {
					return "", err
				}
				t = t.In(zone)
			}
			return t.Format("Monday, 2006-01-02 15:04:05 MST (-07:00)"), nil
		}),
	}
}
