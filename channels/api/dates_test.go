package api_test

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/dbfile"
	"parley/gateway/gatewaytest"
)

// extremes are times in Unix seconds at the limits of calendars and integers.
var extremes = []int64{
	0, 1, -1, math.MinInt64, math.MaxInt64, math.MaxInt64 / 1000, math.MinInt64 / 1000, // as no clock says
	-62135596800, -62135596801, -62167219200, -62167219201, // around the beginning of the years 1 and 0
	253402300799, 253402300800, 253402300799 - 12*3600, // around the end of the year 9999
}

// TestMessagesOfAnyDateCanBeRead stores messages with each of the extremes through every channel, and
// reads them everywhere: no date makes a page, an export, a search or a reply fail. The last rows are
// as an old version stored them, which took any date.
func TestMessagesOfAnyDateCanBeRead(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	g := start(t, fmt.Sprintf("[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"", telegramtest.Token, tg.URL))
	ada := telegramtest.User{ID: 7, FirstName: "Ada"}
	for n, seconds := range extremes {
		tg.Say(telegramtest.Private(ada), ada, fmt.Sprintf("platform date %d", n), telegramtest.With("date", seconds))
	}
	_, err := tg.WaitSent(t.Context(), 1)
	g.must(err)
	chat := conversation.Key("telegram:chat:7")
	store := g.gw.Store()
	gatewaytest.Await(g.t, "all is answered", func() bool {
		c, err := store.Active(t.Context(), chat)
		g.must(err)
		waiting, err := store.Waiting(t.Context(), conversation.Scope{Channel: "telegram"})
		g.must(err)
		return c.Messages > int64(len(extremes)) && len(waiting) == 0
	})

	g.importDates()
	g.ask("api:old", "as an old version has stored it")
	db, err := dbfile.Open(g.gw.Database)
	g.must(err)
	defer db.Close()
	g.must(store.Close())
	for _, ms := range []int64{math.MaxInt64, 253402300800000, -62167219200001, math.MinInt64} {
		for _, change := range []string{
			`UPDATE messages SET created_at = ?1 WHERE conversation_id IN (SELECT c.id FROM conversations c JOIN sessions s ON s.id = c.session_id WHERE s.key = 'api:old')`,
			`UPDATE conversations SET created_at = ?1, updated_at = ?1 WHERE session_id = (SELECT id FROM sessions WHERE key = 'api:old')`,
			`UPDATE sessions SET created_at = ?1 WHERE key = 'api:old'`,
			`UPDATE runs SET started_at = ?1, ended_at = ?1 WHERE session_id = (SELECT id FROM sessions WHERE key = 'api:old')`,
		} {
			_, err := db.Exec(change, ms)
			g.must(err)
		}
		g.readAll("api:old")
		for _, rename := range []string{`UPDATE sessions SET key = 'web:old', channel = 'web' WHERE key = 'api:old'`, `UPDATE sessions SET key = 'api:old', channel = 'api' WHERE key = 'web:old'`} {
			_, err := db.Exec(rename)
			g.must(err)
			if strings.Contains(rename, "= 'web:old', ") { // as a chat of the browser
				g.reads("/chat/old")
				g.reads("/search?q=version")
			}
		}
	}
	g.readAll(chat)
	g.readAll("api:imported")

	for _, command := range []string{"/history 50", "/export", "/export json", "/search date", "/sessions", "/state"} {
		before := len(tg.Sent())
		tg.Say(telegramtest.Private(ada), ada, command)
		sent, err := tg.WaitSent(t.Context(), before+1)
		g.must(err)
		if text := sent[len(sent)-1].Text; strings.Contains(text, "could not be") || strings.Contains(text, "went wrong") {
			t.Errorf("%s is answered %q", command, text)
		}
	}
}

// importDates imports conversations with the extremes as dates, in JSON lines.
func (g *gateway) importDates() {
	g.t.Helper()
	var lines strings.Builder
	for n, at := range []string{
		`"at":"0000-01-01T00:00:00Z"`, `"at":"0000-01-01T00:00:00+14:00"`, `"at":"0001-01-01T00:00:00Z"`, `"at":"9999-12-31T23:59:59.999999999Z"`,
		`"at":"9999-12-31T23:59:59-14:00"`, `"created_at":-1`, `"created_at":0`, `"created_at":1e300`, `"created_at":-1e300`, `"created_at":253402300799.9`,
	} {
		fmt.Fprintf(&lines, `{"conversation":"imported %d","role":"user","content":"imported date",%s}`+"\n", n, at)
	}
	path := filepath.Join(g.gw.Dir, "dates.jsonl")
	g.must(os.WriteFile(path, []byte(lines.String()), 0o600))
	g.ask("api:imported", "a session must be there")
	g.gw.MustRun("import", path, "--session", "api:imported")
}

// readAll reads a session through every API and page.
func (g *gateway) readAll(key conversation.Key) {
	g.t.Helper()
	name := "/sessions/" + url.PathEscape(string(key))
	g.get(name)
	for _, view := range []string{"user", "talk", "all"} {
		g.get(name + "/messages?view=" + view)
	}
	for _, path := range []string{"/api/v1/sessions", "/api/v1/sessions?limit=1", "/api/v1/conversations", "/api/v1/search?q=date", "/api/v1/stats",
		"/api/v1" + name + "/export", "/api/v1" + name + "/export?format=json", "/api/v1" + name + "/export?format=jsonl",
		"/console/", "/console/sessions", "/console/session?key=" + url.QueryEscape(string(key)), "/console/search?q=date", "/console/deliveries", "/", "/search?q=date"} {
		g.reads(path)
	}
	for _, of := range g.get(name + "/conversations")["conversations"].([]any) {
		id := of.(object)["id"].(string)
		for _, path := range []string{"/api/v1/conversations/" + id, "/api/v1/conversations/" + id + "/trace", "/api/v1/conversations/" + id + "/export?format=json",
			"/console/conversation/" + id, "/console/conversation/" + id + "/trace"} {
			g.reads(path)
		}
	}
	for _, args := range [][]string{{"sessions", "list"}, {"sessions", "show", string(key)}, {"sessions", "export", string(key)},
		{"sessions", "export", string(key), "--format", "json"}, {"sessions", "search", "date"}, {"sessions", "search", "date", "--json"}} {
		g.gw.MustRun(args...)
	}
}

func (g *gateway) reads(path string) {
	g.t.Helper()
	if r := g.do("GET", path, ""); r.status != http.StatusOK || !strings.Contains(r.header.Get("Content-Type"), "html") && r.text == "" {
		g.t.Errorf("GET %s: %d %s", path, r.status, r.text)
	}
}

// TestStatsAcceptAnyTime asks for the sums of times up to the ends of the calendar:
// they are returned, or refused with an explanation.
func TestStatsAcceptAnyTime(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.ask("api:x", "hello")
	for query, status := range map[string]int{
		"to=9999-12-31T23:59:59Z":                                                        200,
		"from=9999-12-30T00:00:00Z&to=9999-12-31T23:59:59.999999999Z":                    200,
		"to=9999-12-31T23:59:59-14:00":                                                   200,
		"to=0000-01-02T00:30:00Z":                                                        422,
		"to=0000-01-01T00:00:00%2B14:00":                                                 422,
		"from=0000-12-01T00:00:00Z&to=0001-01-03T00:00:00Z":                              200,
		"from=0000-01-01T00:00:00Z&bucket_hours=8784":                                    200,
		"from=0000-01-01T00:00:00Z&to=9999-12-31T23:59:59Z&bucket_hours=300":             422,
		"from=0000-01-01T00:00:00Z&to=9999-12-31T23:59:59Z&bucket_hours=8784":            422,
		"from=1969-12-31T20:30:00Z&to=1970-01-01T03:30:00Z":                              200,
		"from=" + url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339)):       200,
		"from=9999-12-31T23:10:00Z&to=9999-12-31T23:50:00Z":                              422,
		"from=10000-01-01T00:00:00Z":                                                     422,
		"from=-0001-01-01T00:00:00Z":                                                     422,
		"from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z":                              422,
		"from=0000-01-01T00:00:00Z&to=0000-01-02T00:00:00Z":                              422,
		"from=2026-01-01T00:00:00Z&to=2025-01-01T00:00:00Z":                              422,
		"from=9999-12-01T00:00:00Z&to=9999-12-31T23:59:59Z&bucket_hours=8784":            200,
		"from=1969-12-31T00:00:00%2B14:00&to=1969-12-31T00:30:00%2B14:00&bucket_hours=1": 200,
	} {
		r := g.do("GET", "/api/v1/stats?"+query, "")
		if r.status != status || r.object == nil {
			t.Errorf("%s: %d %s", query, r.status, r.text)
		}
	}
}
