package cli_test

import (
	"strings"
	"testing"
	"time"

	"parley/channels/cli"
	"parley/conversation"
	"parley/llm"
	"parley/llm/llmtest"
)

// The model's thoughts before an answer are one line above it. /thought shows them.
func TestThoughtsAreOneLineAboveTheAnswer(t *testing.T) {
	p := openChat(t, func(question string) llmtest.Answer {
		switch question {
		case "think":
			return llmtest.Answer{Reasoning: "I recall \x1b[2J\nthe *map*.", Text: strings.Repeat("Lisbon ", 300) + "end", ChunkDelay: 20 * time.Millisecond}
		}
		return llmtest.Answer{Text: "fine"}
	})
	const line = "Thought · /thought shows it\n"
	p.types("think\r")
	p.sees("end\n›")
	p.has(1)
	if shown := p.since("› think\n"); !strings.HasPrefix(shown, line+"Lisbon") || strings.Count(shown, "Thought") != 1 {
		t.Errorf("the answer is shown as\n%s", shown)
	}
	p.types("/thought\r")
	p.sees("› /thought\nI recall")
	p.sees("\nthe *map*.\n›")
	p.expectNoControlSequences()
}

// /thought also shows the thoughts before a tool call.
func TestThoughtBeforeAToolCallIsKept(t *testing.T) {
	p := openChat(t, func(string) llmtest.Answer {
		return llmtest.Answer{Reasoning: "Which clock?", ToolCalls: []llm.ToolCall{{ID: "c", Name: "current_time", Arguments: "{}"}}}
	})
	p.types("how late is it?\r")
	p.sees("fine\n›")
	p.has(1)
	p.types("/thought\r")
	p.sees("› /thought\nWhich clock?")
	p.expectNoControlSequences()
}

// has waits until a number of answers are stored and printed, not only previewed.
func (p *terminalUser) has(answers int) {
	p.t.Helper()
	p.awaits("the end of the reply", func(string) bool {
		active, err := p.Store().Active(p.t.Context(), cli.Key(cli.DefaultSession))
		if err != nil {
			return false
		}
		page, err := p.Store().Messages(p.t.Context(), conversation.MessageQuery{Conversation: active.ID})
		if err != nil {
			p.t.Fatal(err)
		}
		stored := 0
		for _, m := range page.Messages {
			if m.Role == conversation.RoleAssistant && m.Content != "" {
				stored++
			}
		}
		due, err := p.Store().Due(p.t.Context(), conversation.Scope{Channel: cli.ChannelName, Key: cli.Key(cli.DefaultSession)})
		if err != nil {
			p.t.Fatal(err)
		}
		return stored == answers && len(due) == 0
	})
}
