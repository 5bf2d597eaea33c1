package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/llm/llmtest"
)

// A program stops its own run and is told how it ended, however often it asks. What waited behind it is answered. Another session's run, one that has
// ended and one that never was are left alone.
func TestProgramCancelsARun(t *testing.T) {
	t.Parallel()
	g := start(t)
	done := g.ask(task, "a short one")
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	g.model.Reply(func(c llmtest.Call) llmtest.Answer {
		if c.LastUser() == "a long one" {
			<-hold
		}
		return llmtest.Echo(c)
	})
	g.do("POST", "/api/v1/sessions/"+task+"/messages", `{"text":"a long one"}`, "Prefer: respond-async", "Idempotency-Key: long")
	gatewaytest.Await(t, "the model is asked", func() bool { return len(g.model.Calls()) == 2 })
	g.do("POST", "/api/v1/sessions/"+task+"/messages", `{"text":"one behind it"}`, "Prefer: respond-async", "Idempotency-Key: behind")
	id := int64(done.object["run"].(float64)) + 1
	gatewaytest.Await(t, "the waiting answer names its run", func() bool {
		return g.do("GET", "/api/v1/sessions/"+task+"/answers/long", "").object["run"] == float64(id)
	})
	cancel := func(key string, run int64) reply {
		return g.do("POST", fmt.Sprintf("/api/v1/sessions/%s/runs/%d/cancel", key, run), "")
	}
	if r := cancel("api:other", id); r.status != http.StatusNotFound {
		t.Errorf("by another session's key: %d %s", r.status, r.text)
	}
	if r := cancel("telegram:chat:1", id); r.status != http.StatusForbidden {
		t.Errorf("of a person's session: %d %s", r.status, r.text)
	}
	for range 2 {
		if r := cancel(task, id); r.object["status"] != "stopped" || r.object["run"] != float64(id) {
			t.Errorf("stopped: %d %s", r.status, r.text)
		}
	}
	if r := g.do("GET", "/api/v1/sessions/"+task+"/answers/long", ""); r.object["status"] != "stopped" {
		t.Errorf("its answer: %d %s", r.status, r.text)
	}
	if r := g.do("GET", "/api/v1/sessions/"+task+"/answers/behind", "", "Prefer: wait=60"); r.object["status"] != "done" {
		t.Errorf("what waited behind it: %d %s", r.status, r.text)
	}
	if r := cancel(task, id-1); r.object["status"] != "done" {
		t.Errorf("of a run that had ended: %d %s", r.status, r.text)
	}
	if r := cancel(task, 999); r.status != http.StatusNotFound {
		t.Errorf("of a run that never was: %d %s", r.status, r.text)
	}
}
