package api_test

import (
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

func TestCapIsAnsweredWith429(t *testing.T) {
	t.Parallel()
	g := start(t, "[budget]\nsession_tokens = 100")
	g.model.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "Yes.", Usage: &llm.Usage{Prompt: 99, Completion: 1}}
	})
	if r := g.ask("api:one", "Are you there?"); r.status != 200 {
		t.Fatalf("%d: %s", r.status, r.text)
	}
	r := g.ask("api:one", "And now?")
	failure, _ := r.object["error"].(object)
	if r.status != 429 || failure["kind"] != "over_budget" || !strings.Contains(r.object["reply"].(string), "This chat has used today's 100 tokens") {
		t.Errorf("%d: %s", r.status, r.text)
	}
	const body = `{"user":"one","messages":[{"role":"user","content":"And now?"}]}`
	r = g.do("POST", "/v1/chat/completions", body)
	failure, _ = r.object["error"].(object)
	if r.status != 429 || failure["type"] != "insufficient_quota" || failure["code"] != "insufficient_quota" || r.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d: %s", r.status, r.text)
	}
	if r := g.ask("api:two", "Are you there?"); r.status != 200 {
		t.Errorf("another session: %d: %s", r.status, r.text)
	}
}

// A program that parses the reply reads the warning beside it.
func TestWarningOfABudgetIsAFieldBesideTheReply(t *testing.T) {
	t.Parallel()
	g := start(t, "[budget]\nsession_tokens = 100")
	g.model.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: `{"ok":true}`, Usage: &llm.Usage{Prompt: 84, Completion: 1}}
	})
	warns := func(r reply) bool {
		list, _ := r.object["warnings"].([]any)
		return len(list) == 1 && strings.HasPrefix(list[0].(string), "⚠️ This chat has used 85 % of today's 100 tokens; more from ")
	}
	r := g.ask("api:one", "Are you there?")
	if r.object["reply"] != `{"ok":true}` || !warns(r) {
		t.Errorf("answered with %s", r.text)
	}
	if again := g.do("GET", "/api/v1/sessions/api:one/answers/"+r.object["id"].(string), ""); !warns(again) {
		t.Errorf("asked for again: %s", again.text)
	}
	r = g.do("POST", "/v1/chat/completions", `{"user":"two","messages":[{"role":"user","content":"Are you there?"}]}`)
	if !warns(r) {
		t.Errorf("a completion: %s", r.text)
	}
	r = g.do("POST", "/v1/chat/completions", `{"user":"three","stream":true,"messages":[{"role":"user","content":"Are you there?"}]}`)
	if strings.Count(r.text, "This chat has used 85 %") != 1 {
		t.Errorf("a completion in chunks: %s", r.text)
	}
}

func TestTotalCapIsAnsweredWith429WithoutASession(t *testing.T) {
	t.Parallel()
	g := start(t, "[budget]\ntotal_tokens = 100")
	g.model.Reply(func(llmtest.Call) llmtest.Answer {
		return llmtest.Answer{Text: "Yes.", Usage: &llm.Usage{Prompt: 99, Completion: 1}}
	})
	const body = `{"messages":[{"role":"user","content":"Are you there?"}]}`
	if r := g.do("POST", "/v1/chat/completions", body); r.status != 200 {
		t.Fatalf("%d: %s", r.status, r.text)
	}
	r := g.do("POST", "/v1/chat/completions", body)
	failure, _ := r.object["error"].(object)
	if r.status != 429 || failure["code"] != "insufficient_quota" || r.header.Get("Retry-After") == "" {
		t.Errorf("%d: %s", r.status, r.text)
	}
}
