package agentloop

import (
	"net/http"
	"strings"
	"testing"

	"parley/agentloop/command"
	"parley/conversation/steps"
	"parley/llm/llmtest"
)

func TestReasoningIsStoredButNotSentToTheChat(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(
		llmtest.Answer{Text: "<think>a secret plan</think>One.", Pieces: 9},
		llmtest.Answer{Reasoning: "another plan", Text: "Two."},
	)
	if got := h.ask(room, "one"); got != "One." {
		t.Errorf("the reply is %q", got)
	}
	if got := h.preview(room); strings.Contains(got, "plan") || strings.Contains(got, "think") {
		t.Errorf("the preview is %q", got)
	}
	if got := h.ask(room, "two"); got != "Two." {
		t.Errorf("the reply is %q", got)
	}
	messages := h.messages()
	if messages[1].Content != "One." || messages[1].Reasoning != "a secret plan" || messages[3].Reasoning != "another plan" {
		t.Errorf("stored: %+v", messages)
	}
	for _, m := range h.server.Calls()[1].Messages {
		if strings.Contains(m.Content, "plan") {
			t.Errorf("the model is sent %q", m.Content)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.thought[room] != "another plan" {
		t.Errorf("pages are shown the thought %q", h.thought[room])
	}
}

func TestAnAnswerThatWasCutIsContinued(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(llmtest.Answer{Text: "Once upon a", FinishReason: "length"}, llmtest.Answer{Text: "time."})
	if got := h.ask(room, "a story"); !strings.Contains(got, "/continue gets the rest") {
		t.Errorf("the reply is %q", got)
	}
	if got := h.ask(room, "/continue"); got != "time." {
		t.Errorf("the rest is %q", got)
	}
	if got := h.server.Calls()[1].LastUser(); !strings.HasSuffix(got, command.Continue) {
		t.Errorf("the model is asked %q", got)
	}
	if got := h.ask(room, "/continue"); !strings.Contains(got, "nothing to go on with") {
		t.Errorf("after a whole answer: %q", got)
	}
	if m := h.messages(); m[1].FinishReason != steps.FinishLength || m[3].Content != "time." {
		t.Errorf("stored: %+v", m)
	}
}

func TestContinueThatWaitsThroughARestartIsAnswered(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.server.Script(llmtest.Answer{Text: "Once upon a", FinishReason: "length"}, llmtest.Answer{Status: http.StatusUnauthorized}, llmtest.Answer{Text: "time."})
	h.ask(room, "a story")
	h.end()
	if _, err := h.store.Accept(t.Context(), nil, h.inbound(room, "/continue"), h.inbound(room, "/retry")); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.reply(room)
	if got := h.reply(room); got != "time." {
		t.Errorf("the rest is %q", got)
	}
}
