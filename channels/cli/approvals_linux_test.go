package cli_test

import (
	"strings"
	"testing"

	"parley/llm"
	"parley/llm/llmtest"
)

// A question about a tool call is answered with a word. The model's answer follows below.
func TestQuestionAtATerminal(t *testing.T) {
	p := openChat(t, func(string) llmtest.Answer {
		return llmtest.Answer{Text: "I wait.", ToolCalls: []llm.ToolCall{{ID: "call_1", Name: "wait", Arguments: `{"for": "tea"}`}}}
	}, "[tools]\nask = [\"wait\"]")
	close(p.tool)
	p.types("do it\r")
	p.sees("Answer /approve 1 or /deny 1 within 10 minutes.")
	p.sees(`"for": "tea"`)
	p.atRest()
	p.types("yes\r")
	p.awaits("the answer", func(text string) bool { return strings.HasSuffix(text, "fine\n›") })
	shown := p.since("› yes\n")
	if !strings.HasPrefix(shown, "✅ Allowed by you: wait") || strings.Contains(shown, "before") {
		t.Errorf("the answer is shown as\n%s", shown)
	}
}
