package console

import (
	"fmt"
	"html/template"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/pages"
	"parley/plaintext"
)

// functions returns what the console's templates call beside the shared
// functions. now is the clock that stored times are compared with.
func functions(now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"count":   count,
		"took":    took,
		"ago":     func(t time.Time) template.HTML { return ago(t, now()) },
		"stamp":   stamp,
		"clip":    clip,
		"channel": func(key conversation.Key) string { return key.Channel() },
		"session": sessionURL,
		"name":    senderName,
		"title":   titleOf,
	}
}

// count returns a whole number of any type as people read it: 1,234,567.
func count(n any) string {
	digits := strconv.FormatInt(reflect.ValueOf(n).Int(), 10)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// took returns a duration with the precision that matters: "340 ms", "2.4 s", "3
// min 5 s".
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// ago returns how long ago a time was, with the full time as a tooltip.
func ago(t, now time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	since := now.Sub(t)
	text := ""
	switch {
	case since < time.Minute:
		text = "just now"
	case since < time.Hour:
		text = fmt.Sprintf("%d min ago", since/time.Minute)
	case since < 48*time.Hour:
		text = fmt.Sprintf("%d h ago", since/time.Hour)
	default:
		text = fmt.Sprintf("%d days ago", since/(24*time.Hour))
	}
	return pages.Time(t.In(time.Local), "ago", text)
}

// stamp returns a time to the second, for lists in which order and distance
// matter.
func stamp(t time.Time) template.HTML {
	t = t.In(time.Local)
	return pages.Time(t, "stamp", t.Format("2006-01-02 15:04:05"))
}

// clip returns plaintext.ShortLine of a text, for templates, which have the limit first.
func clip(limit int, text string) string { return plaintext.ShortLine(text, limit) }

// sessionURL returns the address of a session's page.
func sessionURL(key conversation.Key) string {
	return "/console/session?key=" + url.QueryEscape(string(key))
}

// senderName returns the name of a person.
func senderName(s conversation.Sender) string {
	switch {
	case s.Name != "":
		return s.Name
	case s.ID != "":
		return s.ID
	}
	return "somebody"
}

func titleOf(c conversation.Conversation) string {
	if c.Title == "" {
		return "Untitled"
	}
	return c.Title
}

// money returns a cost with its currency.
func money(cost float64, currency string) string {
	digits := 2
	if cost > 0 && cost < 0.01 {
		digits = 4
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", digits, cost, currency))
}
