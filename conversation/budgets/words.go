package budgets

import (
	"fmt"
	"strconv"
	"time"
)

// String returns an amount of the unit: a whole number of tokens, or money without its currency.
func (u Unit) String(n int64) string {
	if u == Cost {
		digits := 2
		if n > 0 && n < 10_000_000 {
			digits = 4
		}
		return strconv.FormatFloat(float64(n)/1e9, 'f', digits, 64)
	}
	return grouped(n)
}

// Words returns an amount with its unit.
func (u Unit) Words(n int64, currency string) string {
	if u == Cost {
		return u.String(n) + " " + currency
	}
	return u.String(n) + " tokens"
}

// grouped returns a number with commas between the thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Words returns what a person is told whose call is refused.
func (r *Refused) Words(currency string) string {
	today := "today's " + r.Unit.Words(r.Most, currency)
	switch r.Scope {
	case Person:
		return "You have used " + today + "; " + r.more(r.At) + "."
	case Session:
		return "This chat has used " + today + "; " + r.more(r.At) + "."
	}
	return "Today's " + r.Unit.Words(r.Most, currency) + " for everybody are used; " + r.more(r.At) + "."
}

// Warning returns what a person is told when most of a cap is used.
func (u Use) Warning(currency string, now time.Time) string {
	who := "You have"
	if u.Scope == Session {
		who = "This chat has"
	}
	if u.Used >= u.Most {
		return who + " used today's " + u.Unit.Words(u.Most, currency) + "; " + u.more(now) + "."
	}
	return fmt.Sprintf("%s used %d %% of today's %s; %s.", who, u.Percent(), u.Unit.Words(u.Most, currency), u.more(now))
}

// Percent returns which part of the cap is used.
func (u Use) Percent() int64 { return int64(float64(u.Used) / float64(u.Most) * 100) }

// more says from when on there is more.
func (u Use) more(now time.Time) string {
	at := u.Reset.Format("15:04")
	if u.named {
		at += " " + u.Reset.Location().String() + " time"
	}
	return fmt.Sprintf("more from %s (in %s)", at, inWords(u.Reset.Sub(now)))
}

// More says from when on there is more, as a sentence.
func (u Use) More(now time.Time) string { return "M" + u.more(now)[1:] + "." }

// inWords returns a time of up to a day.
func inWords(d time.Duration) string {
	if d >= time.Hour {
		return fmt.Sprintf("%d h", int64((d+30*time.Minute)/time.Hour))
	}
	return fmt.Sprintf("%d min", max(1, int64((d+30*time.Second)/time.Minute)))
}
