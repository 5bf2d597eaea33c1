package command

import (
	"strconv"
	"strings"
	"time"

	"parley/conversation"
)

// named returns how a sentence refers to a conversation.
func named(c conversation.Conversation) string {
	if c.Title == "" {
		return "this conversation"
	}
	return "the conversation " + quoted(c.Title)
}

func orUntitled(title string) string {
	if title == "" {
		return "untitled"
	}
	return title
}

func quoted(text string) string { return "“" + text + "”" }

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

func when(t time.Time) string { return t.Format("2006-01-02 15:04") }

// span returns a duration as people say it, in its largest unit.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return plural(int64(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return plural(int64(d/time.Hour), "hour")
	}
	return plural(int64(d/(24*time.Hour)), "day")
}
