// Package windowtest checks lists of messages as the servers of models do.
package windowtest

import (
	"fmt"

	"parley/llm"
)

// Check returns an error for a list that a chat completions API refuses.
func Check(list []llm.Message) error {
	open := map[string]bool{}
	for i, m := range list {
		if m.Role != "tool" && len(open) > 0 {
			return fmt.Errorf("message %d comes before the results of %v", i, open)
		}
		if m.Role == "tool" && !open[m.ToolCallID] {
			return fmt.Errorf("message %d answers no call", i)
		}
		delete(open, m.ToolCallID)
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("calls without results: %v", open)
	}
	return nil
}

// replyTokens prime every answer, by the count of the OpenAI cookbook ("How to
// count tokens with tiktoken").
const replyTokens = 3

// Counter counts the tokens of a message.
type Counter interface {
	Message(m llm.Message) int
}

// Tokens returns what a list costs.
func Tokens(counter Counter, list []llm.Message) int {
	sum := replyTokens
	for _, m := range list {
		sum += counter.Message(m)
	}
	return sum
}
