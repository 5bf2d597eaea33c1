package api_test

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// At shutdown, a request whose run is under way gets its answer. A request whose run does not begin any
// more is told to try again: its message is stored, and answered after the next start.
func TestShutdownAnswersOrPostponesRequests(t *testing.T) {
	t.Parallel()
	g := start(t, "[agent]\ndrain_timeout = \"90s\"")
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		<-held
		return llmtest.Echo(c)
	})
	answers := make(chan reply, 2)
	go func() { answers <- g.ask(task, "first", "Idempotency-Key: first") }()
	gatewaytest.Await(g.t, "the model is asked", func() bool { return g.model.Served() == 1 })
	waits := g.open("POST", "/api/v1/sessions/"+task+"/messages", `{"text":"second"}`, "Idempotency-Key: second")
	waits.until("accepted")
	watches := g.open("GET", "/api/v1/sessions/"+task+"/events", "")
	watches.until("accepted")
	g.gw.Process().Signal(syscall.SIGTERM)
	problem := waits.until("error").object(t)
	if problem["status"] != 503.0 || !strings.Contains(problem["detail"].(string), "answers/second") {
		t.Errorf("%v", problem)
	}
	gatewaytest.Await(t, "/readyz to say that the gateway ends", func() bool {
		r := g.do("GET", "/readyz", "")
		return r.status == http.StatusServiceUnavailable && strings.Contains(r.text, `"ending":true`)
	})
	if r := g.ask(task, "late", "Idempotency-Key: late"); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("a message gets %d %v %s", r.status, r.header, r.text)
	}
	stateless := `{"messages": [{"role": "user", "content": "late"}]}`
	if r := g.do("POST", "/v1/chat/completions", stateless); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || r.header.Get("X-Should-Retry") != "" {
		t.Errorf("a completion gets %d %v %s", r.status, r.header, r.text)
	}
	if r := g.do("POST", "/api/v1/sessions/"+task+"/reset", "{}"); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("a reset gets %d %v %s", r.status, r.header, r.text)
	}
	again := g.open("GET", "/api/v1/sessions/"+task+"/answers/first", "", "Accept: text/event-stream")
	again.until("accepted")
	release()
	if e := again.until("done"); e.object(t)["reply"] != "echo: first" {
		t.Errorf("who asks again is told %+v", e)
	}
	watches.until("message")
	if e := watches.until("message"); e.object(t)["content"] != "echo: first" {
		t.Errorf("who watches the session sees %+v", e)
	}
	watches.rest() // returns, since the stream ends
	if r := <-answers; r.status != http.StatusOK || r.object["reply"] != "echo: first" {
		t.Errorf("%d %s", r.status, r.text)
	}
	g.gw.Process().MustExit(0)
	g.gw.Start()
	if r := g.ask(task, "second", "Idempotency-Key: second"); r.object["reply"] != "echo: second" {
		t.Errorf("%d %s", r.status, r.text)
	}
	if n := g.model.Served(); n != 2 {
		t.Errorf("the model was asked %d times", n)
	}
}

// A listener that reconnects after a restart of the gateway gets the events that it missed.
func TestStreamContinuesAfterTheLastEventAcrossARestart(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.ask(task, "before")
	stream := g.open("GET", "/api/v1/sessions/"+task+"/events", "")
	first := stream.until("accepted")
	g.ask(task, "seen")
	if e := stream.until("message"); e.object(t)["content"] != "seen" || e.id == first.id {
		t.Errorf("%+v", e)
	}
	last := stream.until("message")
	if last.object(t)["content"] != "echo: seen" {
		t.Errorf("%+v", last)
	}
	stream.body.Close()
	g.ask(task, "missed")
	g.ask(task, "/status")
	g.ask(task, "/new")
	g.ask(task, "in another conversation")
	g.gw.Kill()
	g.gw.Start()
	stream = g.open("GET", "/api/v1/sessions/"+task+"/events", "", "Last-Event-ID: "+last.id)
	var got []string
	for len(got) < 6 {
		e, ok := stream.next()
		if !ok {
			t.Fatalf("the stream ended after %q", got)
		}
		switch e.name {
		case "message":
			got = append(got, e.object(t)["content"].(string))
		case "notice":
			got = append(got, e.object(t)["asked"].(string))
		}
	}
	want := "missed, echo: missed, in another conversation, echo: in another conversation, /status, /new"
	if strings.Join(got, ", ") != want {
		t.Errorf("it goes on with %q", got)
	}
}

// A listener that was away for several conversations gets the events of each, and the rest of the one
// in which it left.
func TestResumedStreamReportsAllConversations(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.ask(task, "before")
	stream := g.open("GET", "/api/v1/sessions/"+task+"/events", "")
	last := stream.until("accepted")
	stream.body.Close()
	for _, text := range []string{"one", "/new", "two", "/new", "three", "/new"} {
		g.ask(task, text)
	}
	stream = g.open("GET", "/api/v1/sessions/"+task+"/events", "", "Last-Event-ID: "+last.id)
	stream.until("accepted")
	g.ask(task, "last")
	var got []string
	for len(got) == 0 || got[len(got)-1] != "echo: last" {
		got = append(got, stream.until("message").object(t)["content"].(string))
	}
	if text := strings.Join(got, ", "); text != "one, echo: one, two, echo: two, three, echo: three, last, echo: last" {
		t.Errorf("it goes on with %q", text)
	}
}

// A stream that is new, or that continues after an event which is none of the session, gets neither
// old events nor those of another session.
func TestNewStreamHasNoOldEventsAndNoneOfOtherSessions(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.ask("api:other", "a secret")
	other := g.open("GET", "/api/v1/sessions/api:other/events", "").until("accepted")
	g.ask(task, "old")
	g.ask(task, "/new")
	conversation, _, _ := strings.Cut(other.id, "/")
	for name, headers := range map[string][]string{
		"new": nil, "of another session": {"Last-Event-ID: " + conversation + "/0/0"},
	} {
		stream := g.open("GET", "/api/v1/sessions/"+task+"/events", "", headers...)
		stream.until("accepted")
		g.ask(task, "news for who is "+name)
		if e := stream.until("message"); !strings.HasPrefix(e.object(t)["content"].(string), "news") {
			t.Errorf("%s: it begins with %+v", name, e)
		}
		stream.body.Close()
	}
}
