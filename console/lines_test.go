package console_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/console"
	"parley/gateway/gatewaytest"
)

// The newest lines are kept, and no more of them than that.
func TestTheNewestLinesOfTheLogAreKept(t *testing.T) {
	t.Parallel()
	lines := console.NewLines(nil)
	log := slog.New(lines.Beside(slog.DiscardHandler))
	for n := range 1500 {
		log.Info("line", "n", n)
	}
	list := lines.After(0)
	if len(list) != 1000 || list[0].More != "n=500" || list[999].More != "n=1499" || list[999].N != 1500 {
		t.Errorf("%d lines, from %+v to %+v", len(list), list[0], list[len(list)-1])
	}
	if list := lines.After(1499); len(list) != 1 {
		t.Errorf("%d lines behind the last but one", len(list))
	}
}

// A line has its attributes with their groups. Debug lines are left out.
func TestLogLineHasItsAttributes(t *testing.T) {
	t.Parallel()
	lines := console.NewLines(nil)
	log := slog.New(lines.Beside(slog.DiscardHandler)).With("channel", "telegram").WithGroup("call")
	log.Debug("no")
	log.Warn("slow", "took", "3s", "time", "noon")
	list := lines.After(0)
	if len(list) != 1 || list[0].Text != "slow" || list[0].More != "channel=telegram call.took=3s call.time=noon" || list[0].Level != slog.LevelWarn {
		t.Errorf("%+v", list)
	}
}

// A secret that was logged by mistake is not shown, in whatever form it was logged.
func TestLogShowsNoSecrets(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	d.log.Error("GET https://host/bot"+"a-long-secret/getMe", "error", fmt.Errorf("dial a-long-secret: no route"), "header", []string{"Bearer a-long-secret"})
	page := d.browser.Page("/console/log")
	if strings.Contains(page, "a-long-secret") || !strings.Contains(page, "bot(hidden)/getMe") {
		t.Errorf("the log shows: %s", page)
	}
}

// A page that reconnects gets the lines after its last one, and all lines after a restart.
func TestLogStreamContinuesAfterTheLastLine(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	for n := range 3 {
		d.log.Warn(fmt.Sprint("line ", n))
	}
	d.log.Info("something else")
	for from, want := range map[string]string{d.lines.Run + "/1": "line 1", "another/2": "line 0", "": "line 0"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.browser.URL+"/console/log/events?level=warn&q=LINE", nil)
		d.must(err)
		request.Header.Set("Last-Event-ID", from)
		answer, err := d.browser.Client.Do(request)
		d.must(err)
		read := bufio.NewScanner(answer.Body)
		first := ""
		for first == "" && read.Scan() {
			if text, is := strings.CutPrefix(read.Text(), "data: "); is {
				first = text
			}
		}
		answer.Body.Close()
		if !strings.Contains(first, "<b>"+want+"</b>") {
			t.Errorf("from %q on: %s", from, first)
		}
	}
}

// The stream's headers are sent before the first line.
func TestTheLogStreamOpensBeforeItsFirstLine(t *testing.T) {
	t.Parallel()
	d := newConsoleHarness(t, nil)
	gatewaytest.Await(t, "the stream to open before its first sign of life, which comes after 15 s", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a busy machine may take longer, and is asked again
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.browser.URL+"/console/log/events?q=a+line+that+never+comes", nil)
		d.must(err)
		answer, err := d.browser.Client.Do(request)
		if ctx.Err() != nil {
			return false
		}
		d.must(err)
		defer answer.Body.Close()
		if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("the stream has the type %q", got)
		}
		return true
	})
}
