package channels_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/channels"
)

// Attempts that fail for an hour leave an entry a minute, with their number, and one when they succeed again. Another
// trouble in between is logged at once, but not each time that the two alternate.
func TestOutageLogsOncePerMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := channels.NewOutage(slog.New(slog.NewTextHandler(&log, nil)))
		network := channels.Trouble{Name: "network", Level: slog.LevelWarn, Text: "no network"}
		server := channels.Trouble{Name: "server", Level: slog.LevelError, Text: "no server"}
		for i := range 3600 {
			trouble := network
			if i%7 == 3 {
				trouble = server
			}
			o.Failed(fmt.Sprint(i%10), trouble, "n", i)
			time.Sleep(time.Second)
		}
		for i := range 10 {
			o.Succeeded(fmt.Sprint(i), "works again")
		}
		text := log.String()
		for part, want := range map[string]int{"no network": 60, "no server": 60, "level=INFO": 1, "works again": 1} {
			if n := strings.Count(text, part); n < want-2 || n > want {
				t.Errorf("%q is logged %d times, want %d:\n%s", part, n, want, text)
			}
		}
		if first, _, _ := strings.Cut(text, "\n"); !strings.Contains(first, "n=0") || strings.Contains(first, "failures=") {
			t.Errorf("the first entry reads %s", first)
		}
		if !strings.Contains(text, "affected=10 for=") || !strings.Contains(text, "after=1h0m0s") {
			t.Errorf("the log says nothing of its extent:\n%s", text)
		}
	})
}

// Attempts that alternately fail and succeed leave no more entries than those that only fail.
func TestOutageIsQuietAboutAFlappingPlatform(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		retry := channels.NewRetry(slog.New(slog.NewTextHandler(&log, nil)))
		for range 300 {
			if retry.Wait(t.Context(), channels.Trouble{Level: slog.LevelWarn, Text: "poll failed"}, errors.New("502"), 2*time.Second) != nil || !retry.IsFailing() {
				t.Fatal("the retry ends")
			}
			retry.Succeeded("polls work again")
		}
		if n := strings.Count(log.String(), "\n"); n < 2 || n > 22 || strings.Count(log.String(), "polls work again") != n/2 {
			t.Errorf("ten minutes have %d entries:\n%s", n, &log)
		}
	})
}
