// Package schedule computes when something is due: once, or by a recurrence rule of RFC 5545,
// by the clock of a time zone.
package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for systems without time zones, such as a small container

	"github.com/teambition/rrule-go"
)

// Schedule is when something is due. The zone of Start is the one by whose clock a rule goes.
type Schedule struct {
	Start time.Time // the first time
	Rule  string    // RRULE of RFC 5545, such as "FREQ=WEEKLY;BYDAY=MO"; "" = once
}

// The limits of a schedule.
const (
	MinInterval = 15 * time.Minute                // shortest time between two occurrences of a rule, since each costs a run
	maxAhead    = 10 * 366 * 24 * time.Hour       // longest time from now to the first occurrence
	maxPast     = 366 * 24 * time.Hour            // longest time since the start of a rule, from where the next occurrence is searched
	maxRule     = 200                             // bytes of a rule
	maxInterval = 10_000                          // of a rule: by hours more than a year
	localForm   = "2006-01-02T15:04"              // a time by the clock of a zone
	ShownForm   = "Monday, 2 January 2006, 15:04" // form of a time for people
)

// Wanted is when something is to be due, as models and programs say it.
type Wanted struct {
	At        string  // date and time by the clock of a zone; with Every, the first time
	InMinutes float64 // instead of At: so many minutes from now
	Every     string  // an RRULE to repeat it; "" = once
}

// Schedule returns when that is in a zone.
func (w Wanted) Schedule(zone *time.Location, now time.Time) (Schedule, error) {
	const most = 10 * 366 * 24 * 60 // minutes: ten years
	switch {
	case w.InMinutes < 0 || w.InMinutes > most:
		return Schedule{}, errors.New("in_minutes must be more than 0, and at most ten years")
	case w.InMinutes > 0 && w.At != "", w.InMinutes == 0 && w.At == "":
		return Schedule{}, errors.New("give either at or in_minutes")
	case w.InMinutes > 0:
		start := now.Add(time.Duration(w.InMinutes * float64(time.Minute))).In(zone)
		if w.Every == "" {
			return Schedule{Start: start}, nil
		}
		return Repeated(start.Format("2006-01-02T15:04:05"), w.Every, zone, now)
	case w.Every != "":
		return Repeated(w.At, w.Every, zone, now)
	}
	return Once(w.At, zone, now)
}

// Once returns the schedule of a time by the clock of a zone, "2026-11-23T09:00". It fails
// if the time is not in the future, or more than ten years away.
func Once(at string, zone *time.Location, now time.Time) (Schedule, error) {
	start, err := parse(at, zone)
	if err != nil {
		return Schedule{}, err
	}
	if !start.After(now) {
		return Schedule{}, fmt.Errorf("%s is past: there it is now %s", start.Format(ShownForm), now.In(zone).Format(ShownForm))
	}
	return Schedule{Start: start}, checkAhead(start, now)
}

// Repeated returns the schedule of a rule whose first time is at, or the next one that the
// rule allows. It refuses rules that are due more often than every MinInterval.
func Repeated(at, rule string, zone *time.Location, now time.Time) (Schedule, error) {
	start, err := parse(at, zone)
	if err != nil {
		return Schedule{}, err
	}
	if now.Sub(start) > maxPast {
		return Schedule{}, fmt.Errorf("%s is more than a year ago: give the first time from now on", at)
	}
	rule = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(rule)), "RRULE:")
	s := Schedule{Start: start, Rule: rule}
	if err := s.check(); err != nil {
		return Schedule{}, err
	}
	first, ok := s.Next(now)
	if !ok {
		return Schedule{}, fmt.Errorf("the rule %s has no time after %s", rule, now.In(zone).Format(ShownForm))
	}
	return s, checkAhead(first, now)
}

func checkAhead(first, now time.Time) error {
	if first.Sub(now) > maxAhead {
		return errors.New("it is more than ten years away")
	}
	return nil
}

func parse(at string, zone *time.Location) (time.Time, error) {
	for _, form := range []string{localForm, "2006-01-02T15:04:05", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(form, strings.TrimSpace(at), zone); err == nil {
			return t, nil
		}
	}
	if t, err := time.Parse(time.RFC3339, strings.TrimSpace(at)); err == nil {
		return t.In(zone), nil
	}
	return time.Time{}, fmt.Errorf("%q is no date and time such as 2026-11-23T09:00", at)
}

// Next returns the first time after another one. ok is false when there is none.
func (s Schedule) Next(after time.Time) (next time.Time, ok bool) {
	if s.Rule == "" {
		return s.Start, s.Start.After(after)
	}
	rule, err := s.parsed()
	if err != nil {
		return time.Time{}, false
	}
	next = rule.After(after, false)
	return next, !next.IsZero()
}

// Missed returns how many times of the schedule are after one time and not after another, up
// to most.
func (s Schedule) Missed(after, until time.Time, most int) (n int) {
	if s.Rule == "" {
		if s.Start.After(after) && !s.Start.After(until) {
			n = min(1, most)
		}
		return n
	}
	rule, err := s.parsed()
	if err != nil {
		return 0
	}
	times := rule.Iterator()
	for n < most {
		next, ok := times()
		if !ok || next.After(until) {
			break
		}
		if next.After(after) {
			n, after = n+1, next
		}
	}
	return n
}

func (s Schedule) parsed() (*rrule.RRule, error) {
	option, err := rrule.StrToROptionInLocation(s.Rule, s.Start.Location())
	if err != nil {
		return nil, err
	}
	option.Dtstart = s.Start
	if untilDay.MatchString(s.Rule) {
		option.Until = option.Until.AddDate(0, 0, 1).Add(-time.Second)
	}
	if err := checkEnds(*option); err != nil {
		return nil, err
	}
	return rrule.NewRRule(*option)
}

// untilDay matches rules that end with a day, which counts in full.
var untilDay = regexp.MustCompile(`(^|;)UNTIL=\d{8}(;|$)`)

// checkEnds returns an error for a rule of which the library would search the next time for ever.
func checkEnds(o rrule.ROption) error {
	if o.Interval > maxInterval {
		return fmt.Errorf("INTERVAL must be at most %d", maxInterval)
	}
	if o.Freq != rrule.HOURLY || len(o.Byhour) == 0 {
		return nil
	}
	hour := o.Dtstart.Hour()
	for range 24 { // after that the hours repeat themselves
		if slices.Contains(o.Byhour, hour) {
			return nil
		}
		hour = (hour + max(o.Interval, 1)) % 24
	}
	return fmt.Errorf("no hour of BYHOUR comes every %d hours from %s on", o.Interval, o.Dtstart.Format("15:04"))
}

// always are the parts that each rule may have.
var always = []string{"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST"}

// allowed names the parts that a rule may have beside those of always, by its FREQ. With others, the search for the next time could take seconds for a rule that
// is never due.
var allowed = map[rrule.Frequency][]string{
	rrule.HOURLY:  {"BYDAY", "BYHOUR", "BYMINUTE"},
	rrule.DAILY:   {"BYDAY", "BYMONTH", "BYHOUR", "BYMINUTE"},
	rrule.WEEKLY:  {"BYDAY", "BYMONTH", "BYHOUR", "BYMINUTE"},
	rrule.MONTHLY: {"BYDAY", "BYMONTH", "BYMONTHDAY", "BYSETPOS", "BYHOUR", "BYMINUTE"},
	rrule.YEARLY:  {"BYDAY", "BYMONTH", "BYMONTHDAY", "BYSETPOS", "BYHOUR", "BYMINUTE", "BYYEARDAY", "BYWEEKNO"},
}

// check returns why a rule can't be used.
func (s Schedule) check() error {
	if len(s.Rule) > maxRule {
		return fmt.Errorf("the rule is longer than %d bytes", maxRule)
	}
	option, err := rrule.StrToROption(s.Rule)
	if err != nil {
		return fmt.Errorf("%q is no RRULE of RFC 5545 such as FREQ=WEEKLY;BYDAY=MO,FR: %w", s.Rule, err)
	}
	parts, known := allowed[option.Freq]
	if !known {
		return errors.New("FREQ must be HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY")
	}
	for part := range strings.SplitSeq(s.Rule, ";") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case name == "" || slices.Contains(always, name):
		case strings.HasPrefix(name, "DTSTART"):
			return errors.New("a rule can't have DTSTART: at says when it begins")
		case !slices.Contains(parts, name):
			return fmt.Errorf("a rule with FREQ=%s can't have %s, only %s", option.Freq, name, strings.Join(parts, ", "))
		}
		if name == "COUNT" && option.Count < 1 || name == "INTERVAL" && option.Interval < 1 {
			return fmt.Errorf("%s must be at least 1, and is %s", name, value)
		}
	}
	numbered := func(day rrule.Weekday) bool { return day.N() != 0 }
	if option.Freq > rrule.MONTHLY && slices.ContainsFunc(option.Byweekday, numbered) {
		return fmt.Errorf("a day of BYDAY can have a number, such as 1MO for the first Monday, only with FREQ=MONTHLY or YEARLY, and not with %s", option.Freq)
	}
	if _, err := s.parsed(); err != nil {
		return fmt.Errorf("the rule %s can't be used: %w", s.Rule, err)
	}
	return s.checkPace()
}

// checkPace looks at the first times of a rule.
func (s Schedule) checkPace() error {
	const looked = 100
	last, ok := s.Next(s.Start.Add(-time.Second))
	for range looked {
		if !ok {
			return nil
		}
		var next time.Time
		if next, ok = s.Next(last); ok && next.Sub(last) < MinInterval {
			return fmt.Errorf("the rule is due more often than every %d minutes", int(MinInterval.Minutes()))
		}
		last = next
	}
	return nil
}

// Zone returns the time zone of an IANA name such as Europe/Berlin.
func Zone(name string) (*time.Location, error) {
	name = strings.TrimSpace(name)
	if zone, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" {
		return zone, nil
	}
	return nil, fmt.Errorf("%q is no IANA time zone such as Europe/Berlin", name)
}

// Occurrence is one time at which a reminder is due, and the one that follows.
type Occurrence struct {
	Reminder int64     // row ID of the reminder
	Due      time.Time // when the reminder is due, as stored
	Next     time.Time // when it is due next; zero = never again, and the reminder is deleted
}
