package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// No choice at all is refused as OpenAI does; it was answered with one.
func TestNoChoiceIsRefused(t *testing.T) {
	t.Parallel()
	g := start(t)
	for _, session := range []string{"", `"user":"ann",`} {
		r := g.do("POST", "/v1/chat/completions", `{`+session+`"n":0,"messages":[{"role":"user","content":"hi"}]}`)
		told, _ := r.object["error"].(object)
		if r.status != http.StatusBadRequest || told["param"] != "n" || told["code"] != "integer_below_min_value" || !strings.Contains(r.text, ">= 1, but got 0") {
			t.Errorf("%d %s", r.status, r.text)
		}
	}
}

// An empty name of a session is refused: the request was answered without a session, and nothing was stored.
func TestEmptyConversationOfAResponseIsRefused(t *testing.T) {
	t.Parallel()
	g := start(t)
	for conversation, param := range map[string]string{`""`: "conversation", `{"id":""}`: "conversation.id", `{}`: "conversation.id"} {
		r := g.do("POST", "/v1/responses", `{"input":"hi","conversation":`+conversation+`}`)
		told, _ := r.object["error"].(object)
		if r.status != http.StatusBadRequest || told["param"] != param || told["code"] != "empty_string" {
			t.Errorf("%s: %d %s", conversation, r.status, r.text)
		}
	}
	if r := g.do("POST", "/v1/responses", `{"input":"hi","conversation":null}`); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// The window has no pages: a program that asked for one got everything.
func TestWindowHasNoPages(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.ask(task, "hello")
	for _, query := range []string{"limit=1", "before=2", "after=0", "metadata.a=b"} {
		name, _, _ := strings.Cut(query, "=")
		r := g.do("GET", "/api/v1/sessions/"+task+"/messages?view=window&"+query, "")
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.text, "leave out "+name) {
			t.Errorf("%s: %d %s", query, r.status, r.text)
		}
	}
}

// The year 1 is a time like any other: it was taken for none, so that the statistics of a day came.
func TestStatisticsFromTheFirstYear(t *testing.T) {
	t.Parallel()
	g := start(t)
	r := g.do("GET", "/api/v1/stats?from=0001-01-01T00:00:00Z&bucket_hours=8784", "")
	if r.status != http.StatusOK || r.object["from"] != "0001-01-01T00:00:00Z" {
		t.Errorf("%d %.200s", r.status, r.text)
	}
	for _, query := range []string{"from=0001-01-01T00:00:00Z", "to=0001-01-01T00:00:00Z&from=0001-01-01T00:00:00Z"} {
		if r := g.do("GET", "/api/v1/stats?"+query, ""); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %.200s", query, r.status, r.text)
		}
	}
}

// A repeat gets the reminder of the first request, also where the text has a byte that no database keeps.
func TestRepeatOfAReminderWithANULByte(t *testing.T) {
	t.Parallel()
	g := start(t)
	const path, body = "/api/v1/sessions/api:task/reminders", `{"text":"Look\u0000here","in_minutes":500}`
	first, again := g.do("POST", path, body, "Idempotency-Key: nul"), g.do("POST", path, body, "Idempotency-Key: nul")
	if first.status != http.StatusCreated || again.status != first.status || again.object["text"] != first.object["text"] {
		t.Errorf("%d %s, then %d %s", first.status, first.text, again.status, again.text)
	}
}

// An error of a tool names the argument at fault as the tool does. It named the parameter of the HTTP API.
func TestErrorsOfMCPToolsNameTheirArguments(t *testing.T) {
	t.Parallel()
	g := start(t)
	client := connectMCP(t, g.overHTTP(token))
	for want, call := range map[string]struct {
		tool      string
		arguments object
	}{
		"query has no words":       {"search_messages", object{"query": " "}},
		"channel chooses":          {"search_messages", object{"query": "hi", "channel": "web", "session": "api:a"}},
		"idempotency_key: \"a b\"": {"send_message", object{"session": "api:a", "text": "hi", "idempotency_key": "a b"}},
	} {
		if _, refused := client.call(call.tool, call.arguments); !strings.HasPrefix(refused, want) {
			t.Errorf("%s %v is refused with %q", call.tool, call.arguments, refused)
		}
	}
}
