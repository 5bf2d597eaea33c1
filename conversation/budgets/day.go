package budgets

import "time"

// dayOf returns the name of the day of a time in a zone.
func dayOf(t time.Time, zone *time.Location) string { return t.In(zone).Format(time.DateOnly) }

// nextDay returns when the day after a time begins in a zone. Where midnight is left out, as in
// zones that begin daylight saving then, it is the first moment after it.
func nextDay(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	today := t.Format(time.DateOnly)
	next := time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, zone)
	for next.Format(time.DateOnly) == today {
		next = next.Add(30 * time.Minute)
	}
	return next
}
