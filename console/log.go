package console

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"parley/httpserver"
)

// logFilter is which lines are wanted.
type logFilter struct {
	Level string // the lowest level that is shown: "info", "warn" or "error"; any other text means "info"
	Text  string // text that the line contains, in upper or lower case
}

func filterOf(r *http.Request) logFilter {
	return logFilter{Level: r.URL.Query().Get("level"), Text: strings.TrimSpace(r.URL.Query().Get("q"))}
}

func (f logFilter) takes(l Line) bool {
	least := slog.LevelInfo
	_ = least.UnmarshalText([]byte(f.Level)) // an unknown level leaves it at info
	text := strings.ToLower(f.Text)
	return l.Level >= least && (strings.Contains(strings.ToLower(l.Text), text) || strings.Contains(strings.ToLower(l.More), text))
}

type logPage struct {
	Filter logFilter
	Lines  []Line
	Stream string // address of the lines that follow
}

// showLog shows the lines that are stored. A script follows the next ones.
func (c *Console) showLog(w http.ResponseWriter, r *http.Request) {
	p := logPage{Filter: filterOf(r)}
	lines := c.Lines.After(0)
	newest := int64(0)
	for _, line := range lines {
		newest = line.N
		if p.Filter.takes(line) {
			p.Lines = append(p.Lines, line)
		}
	}
	values := url.Values{"level": {p.Filter.Level}, "q": {p.Filter.Text}, "from": {c.eventID(newest)}}
	p.Stream = "/console/log/events?" + values.Encode()
	c.show(w, r, "log.html", "log", "Log", p, "console/log.js")
}

// followLog streams the lines that a page does not have yet.
func (c *Console) followLog(w http.ResponseWriter, r *http.Request) {
	filter, at := filterOf(r), c.positionOf(r)
	news, unsubscribe := c.Lines.Subscribe()
	defer unsubscribe()
	events := httpserver.OpenEvents(w)
	_ = httpserver.Follow(r.Context(), news, nil, events.Beat, func(bool) (done bool, err error) { // a client that is gone has ended it
		lines := c.Lines.After(at)
		if len(lines) > 0 {
			at = lines[len(lines)-1].N
		}
		return false, c.sendLines(events, lines, filter)
	})
}

func (c *Console) sendLines(events *httpserver.Events, lines []Line, filter logFilter) error {
	var batch []httpserver.Event
	for _, line := range lines {
		if !filter.takes(line) {
			continue
		}
		html, err := c.templates.Fragment("line", line)
		if err != nil {
			return err
		}
		batch = append(batch, httpserver.Event{ID: c.eventID(line.N), Data: string(html)})
	}
	if len(batch) == 0 {
		return nil
	}
	return events.Send(batch...)
}

// eventID returns the id of a line in a stream.
func (c *Console) eventID(n int64) string { return fmt.Sprintf("%s/%d", c.Lines.Run, n) }

// positionOf returns the line after which a stream continues: where a broken one
// ended, or where the page says. After a restart all lines are new.
func (c *Console) positionOf(r *http.Request) int64 {
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = r.URL.Query().Get("from")
	}
	var n int64
	if _, err := fmt.Sscanf(from, c.Lines.Run+"/%d", &n); err != nil {
		return 0
	}
	return n
}
