package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	_ "time/tzdata" // for systems without time zones, such as a small container
)

// CurrentTime returns the tool that tells the time by the clock now.
func CurrentTime(now func() time.Time) Tool {
	return Tool{
		Name:        "current_time",
		Description: "The current date and time, with weekday and time zone.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {
				"timezone": {"type": "string", "description": "IANA name such as Europe/Berlin; the gateway's own zone when left out"}
			},
			"additionalProperties": false
		}`),
		Call: func(_ context.Context, arguments json.RawMessage) (string, error) {
			var a struct {
				Timezone string `json:"timezone"`
			}
			if err := json.Unmarshal(arguments, &a); err != nil {
				return "", fmt.Errorf("current_time takes an object with a timezone: %w", err)
			}
			t := now()
			if a.Timezone != "" {
				zone, err := time.LoadLocation(a.Timezone)
				if err != nil {
					return "", fmt.Errorf("%q is no IANA time zone such as Europe/Berlin", a.Timezone)
				}
				t = t.In(zone)
			}
			return t.Format("Monday, 2006-01-02 15:04:05 MST (-07:00)"), nil
		},
	}
}
