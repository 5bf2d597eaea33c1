package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// furtherModels configures two more models, which the fake server answers with their names. Programs
// may use "large", but not "secret".
const furtherModels = `
[models.large]
allow = ["api:*"]
[models.secret]
allow = ["telegram:42"]
[agents.pirate]
system_prompt = "You are a pirate."
allow_switch = ["api:*"]
[agents.cook]
`

func TestProgramsChooseTheModelOfASession(t *testing.T) {
	t.Parallel()
	g := start(t, furtherModels)
	const session = "/api/v1/sessions/api:task"
	r := g.do("PATCH", session, `{"model": "large", "agent": "pirate"}`)
	if r.status != http.StatusOK || r.object["model"] != "large" || r.object["agent"] != "pirate" {
		t.Fatalf("%d %s", r.status, r.text)
	}
	r = g.ask("api:task", "one")
	if call := g.model.Calls()[0]; call.Model != "large" || r.object["model"] != "large" || !strings.HasPrefix(call.Messages[0].Content, "You are a pirate.") {
		t.Errorf("%s, after %+v", r.text, call)
	}
	list, _ := g.get("/sessions/api:task/messages")["messages"].([]any)
	said, _ := list[len(list)-1].(object)
	if r.object["agent"] != "pirate" || said["agent"] != "pirate" || said["model"] != "large" {
		t.Errorf("the answer names no agent: %s, or its message: %v", r.text, said)
	}
	if r := g.do("PATCH", session, `{"metadata": {"a": 1}}`); r.object["model"] != "large" {
		t.Errorf("metadata took the model away: %s", r.text)
	}
	for _, body := range []string{`{"model": "secret"}`, `{"model": "none"}`, `{"agent": "cook"}`} {
		if r := g.do("PATCH", session, body); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, r.status, r.text)
		}
	}
	if r := g.do("PATCH", session, `{"model": "", "agent": ""}`); r.object["model"] != nil || r.object["metadata"] == nil {
		t.Errorf("%s", r.text)
	}
	g.ask("api:task", "two")
	if call := g.model.Calls()[1]; call.Model == "large" || strings.Contains(call.Messages[0].Content, "pirate") {
		t.Errorf("after going back: %+v", call)
	}
}

func TestMessageOfAProgramChoosesItsModel(t *testing.T) {
	t.Parallel()
	g := start(t, furtherModels)
	if r := g.post("api:task", object{"text": "one", "model": "large"}); r.object["model"] != "large" {
		t.Errorf("%s", r.text)
	}
	if r := g.post("api:task", object{"text": "two"}); r.object["model"] == "large" {
		t.Errorf("%s", r.text)
	}
	if r := g.post("api:task", object{"text": "three", "model": "secret"}); r.status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", r.status, r.text)
	}
}

func TestOpenAIClientsChooseModels(t *testing.T) {
	t.Parallel()
	g := start(t, furtherModels)
	list := g.do("GET", "/v1/models", "").text
	if !strings.Contains(list, `"id":"large"`) || strings.Contains(list, "secret") {
		t.Errorf("the models are %s", list)
	}
	for _, user := range []string{"", `"user": "ann", `} {
		ask := func(model string) reply {
			return g.do("POST", "/v1/chat/completions", `{`+user+`"model": "`+model+`", "messages": [{"role": "user", "content": "hello"}]}`)
		}
		if r := ask("large"); r.object["model"] != "large" {
			t.Errorf("%s%s", user, r.text)
		}
		if r := ask("gpt-4o"); r.status != http.StatusOK || r.object["model"] == "large" || r.object["model"] == "gpt-4o" {
			t.Errorf("%s%s", user, r.text)
		}
		if r := ask("secret"); r.status != http.StatusNotFound || !strings.Contains(r.text, "model_not_found") {
			t.Errorf("%s%d %s", user, r.status, r.text)
		}
	}
}
