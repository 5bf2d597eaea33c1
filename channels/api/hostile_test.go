package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// A hostile request is answered with an explanation, never with a 5xx, and nothing of it reaches the
// model.
func TestHostileRequestsAreRefused(t *testing.T) {
	t.Parallel()
	g := start(t)
	const messages = "/api/v1/sessions/api:x/messages"
	for name, c := range map[string]struct {
		method, path, body string
		header             string
		status             int
		says               string
	}{
		"no body":               {"POST", messages, "", "", 400, "body"},
		"no JSON":               {"POST", messages, "text=hello", "", 400, "body"},
		"half of it":            {"POST", messages, `{"text":"hel`, "", 400, "body"},
		"a list":                {"POST", messages, `[]`, "", 422, "object"},
		"null":                  {"POST", messages, `null`, "", 422, "object"},
		"a number":              {"POST", messages, `{"text":5}`, "", 422, "body.text"},
		"an unknown field":      {"POST", messages, `{"txt":"hello"}`, "", 422, "body.txt"},
		"an unknown inner one":  {"POST", messages, `{"run":false,"messages":[{"role":"user","content":"a","extra":1}]}`, "", 422, "body.messages[0].extra"},
		"an unknown role":       {"POST", messages, `{"run":false,"messages":[{"role":"robot","content":"a"}]}`, "", 422, "body.messages[0].role"},
		"empty text":            {"POST", messages, `{"text":" \n\t "}`, "", 422, "empty"},
		"huge text":             {"POST", messages, `{"text":"` + strings.Repeat("a", 300<<10) + `"}`, "", 422, "too long"},
		"a huge body":           {"POST", messages, `{"text":"` + strings.Repeat("a", 25<<20) + `"}`, "", 413, ""},
		"deep JSON":             {"POST", messages, `{"text":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "", 400, "depth"},
		"deep metadata":         {"POST", messages, `{"run":false,"text":"a","metadata":` + strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50) + `}`, "", 422, "etadata"},
		"a form":                {"POST", messages, `text=hello`, "Content-Type: application/x-www-form-urlencoded", 415, ""},
		"a key with spaces":     {"POST", messages, `{"text":"a"}`, "Idempotency-Key: a b", 400, "Idempotency-Key"},
		"a key too long":        {"POST", messages, `{"text":"a"}`, "Idempotency-Key: " + strings.Repeat("k", 200), 400, "Idempotency-Key"},
		"an empty file":         {"POST", messages, `{"text":"a","files":[{"data":""}]}`, "", 422, "files[0].data"},
		"a file of no base64":   {"POST", messages, `{"text":"a","files":[{"data":"%%%"}]}`, "", 422, ""},
		"NUL in the key":        {"GET", "/api/v1/sessions/api:%00/messages", "", "", 400, "UTF-8"},
		"broken UTF-8 in it":    {"GET", "/api/v1/sessions/api:%ff/messages", "", "", 400, "UTF-8"},
		"a long key":            {"GET", "/api/v1/sessions/api:" + strings.Repeat("k", 5000), "", "", 400, "bytes"},
		"dots":                  {"GET", "/api/v1/sessions/..%2f..%2fetc%2fpasswd", "", "", 400, "channel"},
		"dots with a channel":   {"GET", "/api/v1/sessions/api:..%2f..", "", "", 404, ""},
		"no channel":            {"GET", "/api/v1/sessions/:x", "", "", 400, "channel"},
		"a session that is not": {"GET", "/api/v1/sessions/api:nobody/messages", "", "", 404, "session"},
		"a conversation's dots": {"GET", "/api/v1/conversations/..", "", "", 404, ""},
		"SQL for an id":         {"GET", "/api/v1/conversations/'%20OR%201=1--", "", "", 404, ""},
		"an id's beginning":     {"GET", "/api/v1/conversations/0/trace", "", "", 404, ""},
		"a wrong view":          {"GET", messages + "?view=secret", "", "", 422, "view"},
		"an unknown parameter":  {"GET", messages + "?veiw=all", "", "", 422, "veiw"},
		"too many":              {"GET", "/api/v1/sessions?limit=100000", "", "", 422, "limit"},
		"a broken query":        {"GET", "/api/v1/sessions?text=%zz", "", "", 400, "query"},
		"no words":              {"GET", "/api/v1/search?q=%20", "", "", 422, "words"},
		"two scopes":            {"GET", "/api/v1/search?q=a&session=api:a&channel=web", "", "", 422, "channel"},
		"no query":              {"GET", "/api/v1/search", "", "", 422, "q"},
		"stats of ages":         {"GET", "/api/v1/stats?from=0001-01-02T00:00:00Z", "", "", 422, "buckets"},
		"a wrong time":          {"GET", "/api/v1/stats?from=yesterday", "", "", 422, "from"},
		"a wrong event":         {"GET", "/api/v1/sessions/api:x/events", "", "Last-Event-ID: nonsense", 400, "Last-Event-ID"},
		"a wrong method":        {"PUT", messages, `{}`, "", 405, ""},
		"a wrong path":          {"GET", "/api/v1/nothing", "", "", 404, ""},
		"a change of nothing":   {"PATCH", "/api/v1/sessions/api:x", `{}`, "", 422, "There is nothing to change. Allowed: metadata, model, agent."},
		"a huge title":          {"PATCH", "/api/v1/conversations/x", `{"title":"` + strings.Repeat("t", 1000) + `"}`, "", 422, "title"},
		"huge metadata":         {"PATCH", "/api/v1/sessions/api:x", `{"metadata":{"a":"` + strings.Repeat("m", 30<<10) + `"}}`, "", 422, "etadata"},
	} {
		t.Run(name, func(t *testing.T) {
			headers := []string{}
			if c.header != "" {
				headers = append(headers, c.header)
			}
			r := g.do(c.method, c.path, c.body, headers...)
			if r.status != c.status || !strings.Contains(r.text, c.says) || r.header.Get("Content-Type") != "application/problem+json" || r.object["status"] != float64(c.status) {
				t.Errorf("%d, want %d with %q: %.300s", r.status, c.status, c.says, r.text)
			}
			if len(r.text) > 2000 {
				t.Errorf("the problem has %d bytes", len(r.text))
			}
		})
	}
	if n := g.model.Served(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

// Unusual but valid texts are stored and found as they are.
func TestUnusualTextsAreAccepted(t *testing.T) {
	t.Parallel()
	g := start(t)
	for name, text := range map[string]string{
		"NUL":           `a\u0000b`,
		"half an emoji": `\ud83d`,
		"broken UTF-8":  "a\xffb",
		"controls":      `\u0001\u001b[31m`,
		"a script":      `<script>alert(1)</script>`,
	} {
		r := g.do("POST", "/api/v1/sessions/api:x/messages", `{"text":"`+text+`"}`)
		if r.status != http.StatusOK || r.object["status"] != "done" {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
	for _, words := range []string{`%22`, `AND`, `NEAR(`, `a*`, `-`, `content:x`, `%22a%22%20OR`, `%00`, `%ff`, `'%3B%20DROP%20TABLE%20messages`} {
		if r := g.do("GET", "/api/v1/search?q="+words, ""); r.status != http.StatusOK {
			t.Errorf("search for %s: %d %s", words, r.status, r.text)
		}
	}
	if list := g.get("/sessions/api:x/messages"); len(list["messages"].([]any)) != 10 {
		t.Errorf("%v", list)
	}
}

// A message is found in its own session only, even if another key and id look the same when joined.
func TestAnswerIsFoundInItsOwnSessionOnly(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.ask("api:a%20api:b", "hello", "Idempotency-Key: k")
	if r := g.do("GET", "/api/v1/sessions/api:b/answers/k%20api:a", ""); r.status != http.StatusNotFound {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// A gateway with a token refuses every request without it.
func TestEveryPathNeedsTheToken(t *testing.T) {
	t.Parallel()
	g := startHTTP(t, "token = \""+token+"\"")
	for _, path := range []string{"GET /api/v1/sessions", "GET /api/openapi.json", "GET /v1/models", "POST /api/v1/sessions/api:x/messages", "POST /v1/chat/completions", "DELETE /api/v1/sessions/api:x"} {
		method, path, _ := strings.Cut(path, " ")
		if r := g.do(method, path, `{"text":"hello"}`); r.status != http.StatusUnauthorized {
			t.Errorf("%s %s: %d %s", method, path, r.status, r.text)
		}
	}
	if r := g.ask("api:x", "hello", "Authorization: Bearer "+token); r.object["reply"] != "echo: hello" {
		t.Errorf("%d %s", r.status, r.text)
	}
}
