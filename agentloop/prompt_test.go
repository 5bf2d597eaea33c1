package agentloop

import (
	"strings"
	"testing"
)

func TestTooLongSystemPromptIsLogged(t *testing.T) {
	t.Parallel()
	router := func(prompt string) *Router {
		h := newHarness(t, func(p *Deps) { p.Config.SystemPrompt = prompt })
		return h.router
	}
	if err := router(DefaultConfig().SystemPrompt).CheckPrompt(); err != nil {
		t.Errorf("the default prompt: %v", err)
	}
	if err := router(strings.Repeat("Never lie. ", 400)).CheckPrompt(); err != nil {
		t.Errorf("a prompt of 1200 tokens with a budget of 4000: %v", err)
	}
	err := router(strings.Repeat("Never lie. ", 5000)).CheckPrompt()
	if err == nil {
		t.Fatal("a prompt of 15000 tokens with a budget of 4000 is not told")
	}
	for _, part := range []string{"agent.system_prompt", "1500", "2000", "conversation.max_tokens", "llm.context_window"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
}
