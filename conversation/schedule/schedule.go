// Package schedule computes when something is due: once, or by a recurrence rule of RFC 5545,
// by the clock of a time zone.
package schedule

import (
	"errors"
	"fmt"
	"iter"
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
		return Repeated(start.Format(time.RFC3339), w.Every, zone, now)
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
	if second := start.Add(shownAgain(start)); !start.After(now) && second.After(now) {
		start = second // the clock shows the time a second time today
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
	if clock, ok := parseClock(at); ok && !clock.Equal(clockOf(start)) {
		s.Rule = withClock(rule, clock)
	}
	first, ok := s.Next(now)
	if !ok {
		return Schedule{}, fmt.Errorf("the rule %s has no time after %s", rule, now.In(zone).Format(ShownForm))
	}
	return s, checkAhead(first, now)
}

// withClock returns a rule that says at which hour and minute it is due. It is for a rule whose first time is left out by daylight
// saving time: the clock shows another one then. A rule by hours goes on from there, unless it means whole days.
func withClock(rule string, clock time.Time) string {
	if strings.Contains(rule, "FREQ=HOURLY") {
		option, err := rrule.StrToROption(rule)
		if err != nil || option.Interval == 0 || option.Interval%24 != 0 {
			return rule
		}
		rule = strings.Replace(rule, "FREQ=HOURLY", "FREQ=DAILY", 1)
		rule = interval.ReplaceAllString(rule, fmt.Sprintf("INTERVAL=%d", option.Interval/24))
	}
	if !strings.Contains(rule, "BYHOUR=") {
		rule += fmt.Sprintf(";BYHOUR=%d", clock.Hour())
	}
	if !strings.Contains(rule, "BYMINUTE=") {
		rule += fmt.Sprintf(";BYMINUTE=%d", clock.Minute())
	}
	return rule
}

// interval matches the interval of a rule.
var interval = regexp.MustCompile(`INTERVAL=\d+`)

func checkAhead(first, now time.Time) error {
	if first.Sub(now) > maxAhead {
		return errors.New("it is more than ten years away")
	}
	return nil
}

func parse(at string, zone *time.Location) (time.Time, error) {
	if t, ok := parseClock(at); ok {
		return byClock(t, zone), nil
	}
	if t, err := time.Parse(time.RFC3339, strings.TrimSpace(at)); err == nil {
		return t.In(zone), nil
	}
	return time.Time{}, fmt.Errorf("%q is no date and time such as 2026-11-23T09:00", at)
}

// parseClock returns a date and time without a zone, as clockOf does.
func parseClock(at string) (t time.Time, ok bool) {
	for _, form := range []string{localForm, "2006-01-02T15:04:05", "2006-01-02 15:04"} {
		if t, err := time.Parse(form, strings.TrimSpace(at)); err == nil {
			return t, true
		}
	}
	return t, false
}

// clockOf returns the date and time that a clock shows at t in the zone of t, as if they were those of UTC.
func clockOf(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// byClock returns when the clock of a zone shows the date and time of t. Where daylight saving time leaves them out,
// it is as much later as the clock is set forward. Where the clock shows them twice, it is the first time (RFC 5545, 3.3.5).
func byClock(t time.Time, zone *time.Location) time.Time {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	at := time.Date(year, month, day, hour, minute, second, 0, zone)
	at = at.Add(max(0, t.Sub(clockOf(at)))) // in America, time.Date returns an earlier time
	if changed, _ := at.ZoneBounds(); !changed.IsZero() {
		_, before := changed.Add(-time.Second).Zone()
		if first := t.Add(-time.Duration(before) * time.Second).In(zone); first.Before(at) && clockOf(first).Equal(t) {
			return first // in Europe, time.Date returns the second time
		}
	}
	return at
}

// shownAgain returns how long after a time the clock of its zone shows the same once more, when daylight saving time ends; 0 if it
// does not.
func shownAgain(at time.Time) time.Duration {
	_, end := at.ZoneBounds()
	_, now := at.Zone()
	_, then := end.Zone()
	later := time.Duration(now-then) * time.Second
	if end.IsZero() || later <= 0 || at.Add(later).Before(end) {
		return 0
	}
	return later
}

// Next returns the first time after another one. ok is false when there is none.
func (s Schedule) Next(after time.Time) (next time.Time, ok bool) {
	for next := range s.times() {
		if next.After(after) {
			return next, true
		}
	}
	return time.Time{}, false
}

// Missed returns how many times of the schedule are after one time and not after another, up
// to most.
func (s Schedule) Missed(after, until time.Time, most int) (n int) {
	for next := range s.times() {
		if n >= most || next.After(until) {
			break
		}
		if next.After(after) {
			n, after = n+1, next
		}
	}
	return n
}

// times returns the times of the schedule. They are in order, except that those in the hour that daylight saving
// time leaves out come before the ones of the hour after it.
func (s Schedule) times() iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		if s.Rule == "" {
			yield(s.Start)
			return
		}
		rule, count, err := s.parsed()
		if err != nil {
			return
		}
		all := rule.Iterator()
		for n := 0; count == 0 || n < count; {
			t, ok := all()
			if !ok {
				return
			}
			t = t.AddDate(-searchYears, 0, 0)
			at, start := byClock(t, s.Start.Location()), s.Start.Truncate(time.Second)
			if t.Equal(clockOf(start)) { // which may be the second time that the clock shows it
				at = start
			}
			if at.Before(start) {
				continue
			}
			if n++; !yield(at) {
				return
			}
		}
	}
}

// searchYears is how many years later the library searches for the times of a rule. It searches until the year 9999, which takes
// long for a rule that is never due. The calendar repeats itself every 400 years.
const searchYears = 19 * 400

// parsed returns the rule for the library, and how many times it has; 0 = no limit. The library computes with what a clock shows,
// searchYears later.
func (s Schedule) parsed() (rule *rrule.RRule, count int, err error) {
	option, err := rrule.StrToROption(s.Rule)
	if err != nil {
		return nil, 0, err
	}
	start := clockOf(s.Start).AddDate(searchYears, 0, 0)
	option.Dtstart = start
	if option.Freq < rrule.HOURLY { // a time that daylight saving time leaves out is before the one that the clock shows instead
		option.Dtstart = start.Add(-time.Duration(start.Hour())*time.Hour - time.Duration(start.Minute())*time.Minute)
		option.Byhour, option.Byminute = orOne(option.Byhour, start.Hour()), orOne(option.Byminute, start.Minute())
	}
	if !option.Until.IsZero() {
		option.Until = s.until(option.Until).AddDate(searchYears, 0, 0)
	}
	count, option.Count = option.Count, 0
	if err := checkEnds(*option); err != nil {
		return nil, 0, err
	}
	rule, err = rrule.NewRRule(*option)
	return rule, count, err
}

// orOne returns a list, or one number where the list is empty.
func orOne(list []int, number int) []int {
	if len(list) == 0 {
		return []int{number}
	}
	return list
}

// until returns the last date and time of a rule by the clock of its zone.
func (s Schedule) until(t time.Time) time.Time {
	switch {
	case untilDay.MatchString(s.Rule):
		return t.AddDate(0, 0, 1).Add(-time.Second)
	case untilUTC.MatchString(s.Rule):
		return clockOf(t.In(s.Start.Location()))
	}
	return t
}

// untilDay matches rules that end with a day, which counts in full, and untilUTC those that end with a time of UTC.
var (
	untilDay = regexp.MustCompile(`(^|;)UNTIL=\d{8}(;|$)`)
	untilUTC = regexp.MustCompile(`(^|;)UNTIL=\d{8}T\d{6}Z(;|$)`)
)

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
	const weeks = 5 // of a month
	late := func(day rrule.Weekday) bool { return day.N() > weeks || day.N() < -weeks }
	if (option.Freq == rrule.MONTHLY || len(option.Bymonth) > 0) && slices.ContainsFunc(option.Byweekday, late) { // the library would panic
		return fmt.Errorf("the number of a day in BYDAY is at most %d, as no month has more of it", weeks)
	}
	if _, _, err := s.parsed(); err != nil {
		return fmt.Errorf("the rule %s can't be used: %w", s.Rule, err)
	}
	return s.checkPace()
}

// checkPace looks at the first times of a rule.
func (s Schedule) checkPace() error {
	n, last := 0, time.Time{}
	for next := range s.times() {
		if n > 0 && next.After(last) && next.Sub(last) < MinInterval {
			return fmt.Errorf("the rule is due more often than every %d minutes", int(MinInterval.Minutes()))
		}
		if n, last = n+1, next; n > 100 {
			break
		}
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
