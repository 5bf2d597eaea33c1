package conversation

import "time"

// The times that are stored and read: within the years 1 to 9999 in every time
// zone, since RFC 3339, and so JSON, can write no others. What is earlier or later
// becomes the first or the last of them.
var (
	firstTime = time.Date(1, time.January, 2, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC).Add(-time.Millisecond)
)

// millis returns a time as it is stored, 0 for the zero time.
func millis(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Before(firstTime):
		return firstTime.UnixMilli()
	case t.After(lastTime):
		return lastTime.UnixMilli()
	}
	return t.UnixMilli()
}

// fromMillis reads what millis has given. A file may hold others: earlier versions
// did not check what platforms said.
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(min(max(ms, firstTime.UnixMilli()), lastTime.UnixMilli()))
}
