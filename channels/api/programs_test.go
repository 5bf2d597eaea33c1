package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The instructions that a program gives a session stay when its conversation is archived, expires or
// is replaced by /new. The program reads and replaces them at one address.
func TestInstructionsBelongToTheSession(t *testing.T) {
	t.Parallel()
	g := start(t)
	const path = "/api/v1/sessions/api:task/instructions"
	if r := g.do("GET", path, ""); r.status != http.StatusNotFound {
		t.Errorf("of no session: %d %s", r.status, r.text)
	}
	g.post("api:task", object{"run": false, "role": "system", "text": "Be brief."})
	g.post("api:task", object{"run": false, "role": "system", "text": "Speak French."})
	told := func(when string, want ...string) {
		t.Helper()
		g.ask("api:task", "hello")
		calls := g.model.Calls()
		prompt, from := calls[len(calls)-1].Messages[0].Content, 0
		for _, text := range want {
			at := strings.Index(prompt[from:], text)
			if at < 0 {
				t.Fatalf("%s: the model is not told %q: %q", when, text, prompt)
			}
			from += at
		}
		if got := fmt.Sprint(g.get("/sessions/api:task/instructions")["instructions"]); got != fmt.Sprint(want) {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	told("appended", "Be brief.", "Speak French.")
	g.ask("api:task", "/new")
	told("behind /new", "Be brief.", "Speak French.")
	g.do("POST", "/api/v1/sessions/api:task/archive", "")
	g.post("api:task", object{"run": false, "role": "system", "text": "Be brief."}) // as programs do at the beginning
	told("archived", "Be brief.", "Speak French.")
	g.do("POST", "/api/v1/sessions/api:task/reset", `{"keep_system_message":true}`)
	told("reset, kept", "Be brief.", "Speak French.")

	if r := g.do("PUT", path, `{"instructions":["Speak Italian."]}`); r.status != 200 || fmt.Sprint(r.object["instructions"]) != "[Speak Italian.]" {
		t.Errorf("%d %s", r.status, r.text)
	}
	told("replaced", "Speak Italian.")
	g.do("POST", "/api/v1/sessions/api:task/archive", "")
	g.do("PUT", path, `{"instructions":["Between two conversations."]}`)
	told("replaced between two conversations", "Between two conversations.")
	g.do("POST", "/api/v1/sessions/api:task/reset", "")
	told("reset")

	if r := g.do("PUT", "/api/v1/sessions/api:new/instructions", `{"instructions":["Of a new session."]}`); r.status != 200 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := g.do("PUT", "/api/v1/sessions/telegram:chat:1/instructions", `{"instructions":["x"]}`); r.status != http.StatusNotFound {
		t.Errorf("a place of people that does not exist: %d %s", r.status, r.text)
	}
	long := strings.Repeat("x", 17<<10)
	if r := g.do("PUT", path, `{"instructions":["`+long+`"]}`); r.status != 422 || !strings.Contains(r.text, "16384") {
		t.Errorf("%d %.200s", r.status, r.text)
	}
}

// A field beside the answer says that a new conversation has begun, so that the text is the model's
// alone. The session says when its conversation will expire.
func TestExpiryIsReportedBesideTheAnswer(t *testing.T) {
	t.Parallel()
	g := start(t, "[conversation]\nsession_expiration = \"1ms\"")
	first := g.ask("api:task", "one")
	if first.object["new_conversation"] != nil {
		t.Errorf("the first: %s", first.text)
	}
	if c := g.get("/sessions/api:task/messages")["conversation"].(object); c["expires_at"] == nil {
		t.Errorf("%v", c)
	}
	if list := g.get("/sessions/api:task/messages?view=window")["messages"].([]any); len(list) != 0 {
		t.Errorf("the model would be sent %v of a conversation that is over", list)
	}
	second := g.ask("api:task", "two")
	if second.object["new_conversation"] != true || second.object["reply"] != "echo: two" || second.object["conversation"] == first.object["conversation"] {
		t.Errorf("%s", second.text)
	}
	if again := g.do("GET", "/api/v1/sessions/api:task/answers/"+second.object["id"].(string), ""); again.object["new_conversation"] != true {
		t.Errorf("asked for later: %s", again.text)
	}
	if s := g.get("/sessions/api:task"); s["expires_at"] == nil {
		t.Errorf("%v", s)
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"user":"task","messages":[{"role":"user","content":"three"}]}`,
		"/v1/responses":        `{"user":"task","input":"three"}`,
	} {
		if r := g.do("POST", path, body); r.object["new_conversation"] != true {
			t.Errorf("%s: %s", path, r.text)
		}
	}
	never := start(t, "[conversation]\nsession_expiration = \"0s\"")
	never.ask("api:task", "one")
	if s := never.get("/sessions/api:task"); s["expires_at"] != nil {
		t.Errorf("%v", s)
	}
}

// A program finds question and answer by the metadata that it sent with the question, and its message
// by its own id.
func TestMetadataOfAnsweredMessages(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.post("api:task", object{"text": "Mend the build.", "metadata": object{"agent": "coder", "iteration": 1}}, "Idempotency-Key: first")
	g.post("api:task", object{"text": "Review it.", "metadata": object{"agent": "reviewer"}})
	list := g.get("/sessions/api:task/messages?metadata.agent=coder")
	if got := strings.Join(contents(list), "|"); got != "user: Mend the build.|assistant: echo: Mend the build." {
		t.Errorf("%q", got)
	}
	if m := list["messages"].([]any)[0].(object); m["platform_id"] != "first" || m["metadata"].(object)["iteration"] != float64(1) {
		t.Errorf("%v", m)
	}
	if r := g.post("api:task", object{"text": "Mend the build.", "metadata": object{"agent": "other"}}, "Idempotency-Key: first"); r.status != 422 {
		t.Errorf("the same key with other metadata: %d %s", r.status, r.text)
	}
	if r := g.post("api:task", object{"text": "x", "metadata": []string{"a"}}); r.status != 422 {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// Messages can also be appended without a run.
func TestMessagesAreAppendedAtTheirOwnAddress(t *testing.T) {
	t.Parallel()
	g := start(t)
	const path = "/api/v1/sessions/api:task/messages:append"
	const two = `{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"}]}`
	for i, status := range []int{201, 200} {
		if r := g.do("POST", path, two, "Idempotency-Key: log-1"); r.status != status || len(r.object["messages"].([]any)) != 2 {
			t.Errorf("time %d: %d %s", i+1, r.status, r.text)
		}
	}
	if r := g.do("POST", path, `{"run":true,"text":"hi"}`); r.status != 422 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := g.do("POST", "/api/v1/sessions/cli:default/messages:append", two); r.status != 403 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if n := g.model.Served(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	if got := strings.Join(contents(g.get("/sessions/api:task/messages")), "|"); got != "user: one|assistant: two" {
		t.Errorf("%q", got)
	}
}
