package db

import (
	"database/sql"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// The first and the last time that can be stored. An earlier or later time becomes the first or
// the last one. In every time zone they are within the years 1 to 9999, since RFC 3339, and so
// JSON, can't represent others.
var (
	firstTime = time.Date(1, time.January, 2, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC).Add(-time.Millisecond)
)

// Millis returns the stored form of a time: milliseconds since 1970, 0 for the zero time.
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

// FromMillis returns the time for a stored form. Values out of range, which databases of earlier
// versions may have, become the first or the last time.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(min(max(ms, firstTime.UnixMilli()), lastTime.UnixMilli()))
}

// Text returns text in a form that JSON, the database and every model accept: valid UTF-8
// without NUL bytes. Invalid bytes become U+FFFD.
func Text(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.ReplaceAll(text, "\x00", "\uFFFD")
}

// Nullable returns the value for a column in which "" is stored as NULL.
func Nullable(text string) sql.NullString {
	return sql.NullString{String: text, Valid: text != ""}
}

// IDs returns ids as a JSON list, for a parameter of a query that reads them with EachID.
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

// JSONOrNull returns v as JSON, or NULL if empty is true.
func JSONOrNull(v any, empty bool) (sql.NullString, error) {
	if empty {
		return sql.NullString{}, nil
	}
	text, err := json.Marshal(v)
	return sql.NullString{String: string(text), Valid: true}, err
}

// FromJSON decodes a column that JSONOrNull has written into *into.
func FromJSON(column []byte, into any) error {
	if len(column) == 0 {
		return nil
	}
	return json.Unmarshal(column, into)
}

// NoLimit is the LIMIT for a query that needs an OFFSET, but no limit.
const NoLimit = "9223372036854775807"

// OneMore returns the LIMIT for a query that reads one row more than a page of this size, to find out
// whether another page follows. A limit of 0 means no limit.
func OneMore(limit int) int {
	if limit <= 0 || limit == math.MaxInt {
		return math.MaxInt // no limit
	}
	return limit + 1
}
