package db

import (
	"database/sql"
	"strconv"
	"strings"
	"time"
)

// The times that are stored and read: within the years 1 to 9999 in every time
// zone, since RFC 3339, and so JSON, can write no others. What is earlier or later
// becomes the first or the last of them.
var (
	firstTime = time.Date(1, time.January, 2, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC).Add(-time.Millisecond)
)

// Millis returns a time as it is stored, 0 for the zero time.
func Millis(t time.Time) int64 {
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

// FromMillis returns the time that Millis has stored. A file may hold values out of
// range, since earlier versions did not check what platforms said; they become the first
// or the last time.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(min(max(ms, firstTime.UnixMilli()), lastTime.UnixMilli()))
}

// Text returns text in a form that JSON, the database and every model can carry:
// valid UTF-8 without NUL bytes.
func Text(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.ReplaceAll(text, "\x00", "\uFFFD")
}

// Nullable returns text as it is stored where "" is NULL.
func Nullable(text string) sql.NullString {
	return sql.NullString{String: text, Valid: text != ""}
}

// IDs returns ids as one parameter of a query, which reads them with
// SELECT value FROM json_each(?).
func IDs(ids []int64) string {
	list := make([]byte, 0, 16*len(ids)+2)
	list = append(list, '[')
	for i, id := range ids {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, id, 10)
	}
	return string(append(list, ']'))
}
