package schedule

import (
	"strings"
	"testing"
	"time"

	"parley/internal/waittest"
)

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// A reminder keeps its local time when daylight saving time changes. In the night that skips its hour it
// comes an hour later; in the night that repeats its hour it comes once.
func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		at, rule, now string
		want          []string
	}{
		"nine o'clock, in spring": {"2026-03-27T09:00", "FREQ=DAILY", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T09:00:00+01:00", "2026-03-29T09:00:00+02:00", "2026-03-30T09:00:00+02:00"}},
		"nine o'clock, in autumn": {"2026-10-23T09:00", "FREQ=DAILY", "2026-10-24T00:00:00Z",
			[]string{"2026-10-24T09:00:00+02:00", "2026-10-25T09:00:00+01:00", "2026-10-26T09:00:00+01:00"}},
		"the hour that is left out": {"2026-03-28T02:30", "FREQ=DAILY", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"}},
		"the hour that comes twice": {"2026-10-24T02:30", "FREQ=DAILY", "2026-10-24T00:00:00Z",
			[]string{"2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"the second time in the hour that comes twice": {"2026-10-25T02:30:00+01:00", "FREQ=DAILY;COUNT=2", "2026-10-24T00:00:00Z",
			[]string{"2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00", ""}},
		"weekdays over a weekend": {"2026-11-20T08:00", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "2026-11-20T08:00:00+01:00",
			[]string{"2026-11-23T08:00:00+01:00", "2026-11-24T08:00:00+01:00"}},
		"the last Friday": {"2026-11-01T17:00", "FREQ=MONTHLY;BYDAY=-1FR", "2026-11-22T00:00:00Z",
			[]string{"2026-11-27T17:00:00+01:00", "2026-12-25T17:00:00+01:00"}},
		"the 31st": {"2026-01-31T12:00", "FREQ=MONTHLY", "2026-02-01T00:00:00Z",
			[]string{"2026-03-31T12:00:00+02:00", "2026-05-31T12:00:00+02:00"}},
		"three times": {"2026-11-23T09:00", "FREQ=DAILY;COUNT=3", "2026-11-24T10:00:00Z", []string{"2026-11-25T09:00:00+01:00", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Repeated(tt.at, tt.rule, berlin(t), now)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				next, ok := s.Next(now)
				if got := next.Format(time.RFC3339); got != want && (ok || want != "") {
					t.Errorf("after %s: %s, want %q", now, got, want)
				}
				now = next
			}
		})
	}
}

func TestOnceInTheSkippedHour(t *testing.T) {
	t.Parallel()
	for zone, tt := range map[string]struct{ at, want string }{
		"Europe/Berlin":    {"2026-03-29T02:30", "2026-03-29T03:30:00+02:00"},
		"America/New_York": {"2026-03-08T02:30", "2026-03-08T03:30:00-04:00"},
	} {
		in, err := Zone(zone)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Once(tt.at, in, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
		if got := s.Start.Format(time.RFC3339); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v", zone, got, err)
		}
	}
}

// A reminder whose first time is in the hour that is left out comes an hour later on that day alone, and not on all days
// from then on. Each of its times counts, and the day on which it begins stays the same.
func TestRepeatedFromTheSkippedHour(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		zone, at, rule string
		want           []string
	}{
		"Berlin": {"Europe/Berlin", "2026-03-29T02:30", "FREQ=DAILY;COUNT=3",
			[]string{"2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00", ""}},
		"New York": {"America/New_York", "2026-03-08T02:30", "FREQ=DAILY",
			[]string{"2026-03-08T03:30:00-04:00", "2026-03-09T02:30:00-04:00"}},
		"New York, from the day before": {"America/New_York", "2026-03-07T02:30", "FREQ=DAILY",
			[]string{"2026-03-07T02:30:00-05:00", "2026-03-08T03:30:00-04:00", "2026-03-09T02:30:00-04:00"}},
		"New York, by hours": {"America/New_York", "2026-03-08T00:30", "FREQ=HOURLY",
			[]string{"2026-03-08T00:30:00-05:00", "2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00", "2026-03-08T04:30:00-04:00"}},
		"Cairo, at midnight": {"Africa/Cairo", "2026-04-24T00:00", "FREQ=WEEKLY",
			[]string{"2026-04-24T01:00:00+03:00", "2026-05-01T00:00:00+03:00"}},
		"Berlin, by 48 hours": {"Europe/Berlin", "2026-03-29T02:30", "FREQ=HOURLY;INTERVAL=48",
			[]string{"2026-03-29T03:30:00+02:00", "2026-03-31T02:30:00+02:00"}},
		"an hour of the rule": {"Europe/Berlin", "2026-03-29T02:30", "FREQ=DAILY;BYHOUR=1,2,9",
			[]string{"2026-03-29T03:30:00+02:00", "2026-03-29T09:30:00+02:00", "2026-03-30T01:30:00+02:00"}},
		"until its hour": {"America/New_York", "2026-03-07T02:30", "FREQ=DAILY;UNTIL=20260308T023000",
			[]string{"2026-03-07T02:30:00-05:00", "2026-03-08T03:30:00-04:00", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			zone, err := Zone(tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			s, err := Repeated(tt.at, tt.rule, zone, now)
			if err != nil {
				t.Fatal(err)
			}
			s.Start = time.UnixMilli(s.Start.UnixMilli()).In(zone) // as it is stored
			for _, want := range tt.want {
				next, ok := s.Next(now)
				if got := next.Format(time.RFC3339); got != want && (ok || want != "") {
					t.Errorf("after %s: %s, want %q", now, got, want)
				}
				now = next
			}
		})
	}
}

// A time that the clock shows twice, when daylight saving time ends, is the first one in all zones (RFC 5545, 3.3.5).
func TestTimeThatComesTwice(t *testing.T) {
	t.Parallel()
	for zone, tt := range map[string]struct{ at, want string }{
		"Europe/Berlin":       {"2026-10-25T02:30", "2026-10-25T02:30:00+02:00"},
		"America/New_York":    {"2026-11-01T01:30", "2026-11-01T01:30:00-04:00"},
		"Australia/Lord_Howe": {"2026-04-05T01:45", "2026-04-05T01:45:00+11:00"},
	} {
		in, err := Zone(zone)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Once(tt.at, in, time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC))
		if got := s.Start.Format(time.RFC3339); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v", zone, got, err)
		}
	}
}

// Within the hour that comes a second time, a time that is past is meant in this one, and one that is past in both is refused.
func TestTimeWithinTheHourThatComesASecondTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 25, 1, 10, 0, 0, time.UTC) // 02:10 for the second time
	for at, want := range map[string]string{"2026-10-25T02:30": "2026-10-25T02:30:00+01:00", "2026-10-25T02:05": "", "2026-10-25T01:30": ""} {
		s, err := Once(at, berlin(t), now)
		if got := s.Start.Format(time.RFC3339); want != "" && (err != nil || got != want) || want == "" && err == nil {
			t.Errorf("%s: %s, %v", at, got, err)
		}
	}
}

// Minutes from now are the same where the clock shows an hour twice.
func TestRepeatedInMinutesWhileTheHourComesTwice(t *testing.T) {
	t.Parallel()
	for _, now := range []string{"2026-10-25T02:10:00+02:00", "2026-10-25T02:10:00+01:00"} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Wanted{InMinutes: 20, Every: "FREQ=DAILY"}.Schedule(berlin(t), at)
		next, _ := s.Next(at)
		if err != nil || next.Sub(at) != 20*time.Minute {
			t.Errorf("at %s: %s, %v", now, next, err)
		}
	}
}

func TestImpossibleSchedulesAreExplained(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct{ at, rule, want string }{
		"past":            {"2026-11-22T13:59", "", "is past: there it is now Sunday, 22 November 2026, 14:00"},
		"far":             {"2046-11-22T13:59", "", "ten years"},
		"no time":         {"tomorrow", "", `"tomorrow" is no date and time`},
		"no rule":         {"2026-11-23T09:00", "every day", "no RRULE"},
		"every second":    {"2026-11-23T09:00", "FREQ=SECONDLY", "FREQ must be"},
		"every minute":    {"2026-11-23T09:00", "FREQ=MINUTELY", "FREQ must be"},
		"many minutes":    {"2026-11-23T09:00", "FREQ=HOURLY;BYMINUTE=0,5", "more often than every 15 minutes"},
		"never":           {"2026-11-23T09:00", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "has no time"},
		"never, by hours": {"2026-11-23T09:00", "FREQ=HOURLY;BYMONTHDAY=31;BYMONTH=2", "can't have BYMONTHDAY"},
		"over":            {"2026-11-20T09:00", "FREQ=DAILY;COUNT=2", "has no time"},
		"begun long ago":  {"0001-01-01T00:00", "FREQ=HOURLY", "more than a year ago"},
		"long":            {"2026-11-23T09:00", "FREQ=DAILY;BYHOUR=" + strings.Repeat("1,", 200) + "1", "longer than"},
		"bad hour":        {"2026-11-23T09:00", "FREQ=DAILY;BYHOUR=99", "can't be used"},
		"no times":        {"2026-11-23T09:00", "FREQ=DAILY;COUNT=0", "COUNT must be at least 1, and is 0"},
		"fewer times":     {"2026-11-23T09:00", "FREQ=DAILY;COUNT=-1", "COUNT must be at least 1, and is -1"},
		"no interval":     {"2026-11-23T09:00", "FREQ=DAILY;INTERVAL=0", "INTERVAL must be at least 1, and is 0"},
		"a week's first":  {"2026-11-23T09:00", "FREQ=WEEKLY;BYDAY=1MO", "only with FREQ=MONTHLY or YEARLY, and not with WEEKLY"},
		"a day's last":    {"2026-11-23T09:00", "FREQ=DAILY;BYDAY=-1FR", "only with FREQ=MONTHLY or YEARLY, and not with DAILY"},
		"a sixth Monday":  {"2026-11-23T09:00", "FREQ=MONTHLY;BYDAY=6MO", "at most 5"},
		"a month's week":  {"2026-11-23T09:00", "FREQ=YEARLY;BYDAY=53MO;BYMONTH=2", "at most 5"},
		"a month's end":   {"2026-11-23T09:00", "FREQ=YEARLY;BYDAY=-53MO;BYMONTH=2", "at most 5"},
		"another start":   {"2026-11-23T09:00", "FREQ=DAILY;DTSTART=20300101T000000Z", "can't have DTSTART: at says"},
		"a calendar":      {"2026-11-23T09:00", "DTSTART:20300101T000000Z\nRRULE:FREQ=DAILY", "can't have DTSTART: at says"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			if tt.rule == "" {
				_, err = Once(tt.at, berlin(t), now)
			} else {
				_, err = Repeated(tt.at, tt.rule, berlin(t), now)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// "Every day at nine until the 25th" ends with the 25th where the person is. By UTC, people in America
// would miss the last day, and so would everybody when UNTIL is a day alone.
func TestUntilIsByTheClockOfTheZone(t *testing.T) {
	t.Parallel()
	zone, err := Zone("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 24, 20, 0, 0, 0, time.UTC)
	for rule, due := range map[string]bool{
		"FREQ=DAILY;UNTIL=20261125T090000":  true,
		"FREQ=DAILY;UNTIL=20261125T085959":  false,
		"FREQ=DAILY;UNTIL=20261125":         true,
		"UNTIL=20261125;FREQ=DAILY":         true,
		"FREQ=DAILY;UNTIL=20261124":         false,
		"FREQ=DAILY;UNTIL=20261125T140000Z": true,
		"FREQ=DAILY;UNTIL=20261125T135959Z": false,
	} {
		s, err := Repeated("2026-11-23T09:00", rule, zone, now)
		if !due {
			if err == nil {
				t.Errorf("%s is accepted, with nothing left", rule)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		next, _ := s.Next(now)
		if got := next.Format(time.RFC3339); got != "2026-11-25T09:00:00-05:00" {
			t.Errorf("%s: next is %s", rule, got)
		}
		if after, ok := s.Next(next); ok {
			t.Errorf("%s goes on at %s", rule, after)
		}
	}
}

// A rule that is never due is refused at once. The search for its next time would never end: the
// assistant would not answer any more, and the gateway would use a whole processor until it is restarted.
func TestRuleWithoutEndIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
	for rule, want := range map[string]string{
		"FREQ=HOURLY;INTERVAL=24;BYHOUR=5":           "no hour of BYHOUR",
		"FREQ=HOURLY;INTERVAL=2;BYHOUR=8,20":         "no hour of BYHOUR",
		"FREQ=HOURLY;INTERVAL=9223372036854775807":   "INTERVAL must be at most",
		"FREQ=DAILY;INTERVAL=9223372036854775807":    "INTERVAL must be at most",
		"FREQ=MONTHLY;INTERVAL=9223372036854775807":  "INTERVAL must be at most",
		"FREQ=HOURLY;INTERVAL=5;BYHOUR=5;BYMINUTE=0": "",
	} {
		refused := make(chan error, 1)
		go func() {
			_, err := Repeated("2026-11-23T09:00", rule, berlin(t), now)
			refused <- err
		}()
		select {
		case err := <-refused:
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", rule, err, want)
			}
		case <-time.After(waittest.Patience):
			t.Fatalf("%s: the search does not end", rule)
		}
	}
	moved := Schedule{Start: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC), Rule: "FREQ=HOURLY;INTERVAL=24;BYHOUR=9"} // stored in a zone that is not known any more
	if next, ok := moved.Next(now); ok {
		t.Errorf("the next time is %s", next)
	}
}

func TestMissedTimesAreCounted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
	s, err := Repeated("2026-11-23T09:00", "FREQ=DAILY", berlin(t), now)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Missed(s.Start, s.Start.Add(5*24*time.Hour), 100); n != 5 {
		t.Errorf("missed %d, want 5", n)
	}
	if n := s.Missed(s.Start, s.Start.AddDate(9, 0, 0), 100); n != 100 {
		t.Errorf("missed %d, want no more than 100", n)
	}
}

// After an outage the missed times of all reminders are counted before any of them comes. For a reminder of many
// years that took seconds, and delayed those of everybody.
func TestMissedTimesAreCountedInOnePass(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
	s := Schedule{Start: now.AddDate(-3, 0, 0).In(berlin(t)), Rule: "FREQ=HOURLY"}
	took := func(f func()) time.Duration {
		began := time.Now()
		f()
		return time.Since(began)
	}
	next := took(func() { s.Next(now) })
	for range 4 {
		next = max(next, took(func() { s.Next(now) }))
	}
	missed := took(func() {
		if n := s.Missed(now.AddDate(0, 0, -10), now, 100); n != 100 {
			t.Errorf("missed %d, want 100", n)
		}
	})
	if missed > 30*next {
		t.Errorf("counting takes %s, and the search for one time %s", missed, next)
	}
}

// The search for the next time of a rule that is never due ends. It went on until the year 9999 before, a second of a busy
// processor for each such call of a tool.
func TestSearchForTimesThatNeverComeEnds(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 23, 9, 0, 0, 0, berlin(t)) // a Monday
	for _, rule := range []string{"FREQ=HOURLY;INTERVAL=168;BYDAY=TU", "FREQ=YEARLY;BYSETPOS=366,365,364,363;BYDAY=MO"} {
		s := Schedule{Start: start, Rule: rule}
		if next, ok := s.Next(start); ok {
			t.Errorf("%s: due %s", rule, next)
		}
		parsed, _, err := s.parsed()
		if err != nil {
			t.Fatal(err)
		}
		if first := parsed.OrigOptions.Dtstart.Year(); 9999-first > 400 {
			t.Errorf("%s: the library searches from the year %d on", rule, first)
		}
	}
}

func FuzzRule(f *testing.F) {
	f.Add("2026-11-23T09:00", "FREQ=WEEKLY;BYDAY=MO,TU;INTERVAL=2")
	f.Add("2026-11-23T09:00", "FREQ=YEARLY;BYWEEKNO=53;UNTIL=20301231T000000Z")
	f.Fuzz(func(t *testing.T, at, rule string) {
		now := time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
		s, err := Repeated(at, rule, berlin(t), now)
		if err != nil {
			return
		}
		if next, ok := s.Next(now); !ok || !next.After(now) {
			t.Errorf("the first time of %s is %s, %t", rule, next, ok)
		}
	})
}
