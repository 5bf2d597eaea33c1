package journal

import (
	"fmt"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/steps"
	"parley/conversation/storetest"
)

// BenchmarkRound stores a round of one tool call: the model's message before the call, and its result.
func BenchmarkRound(b *testing.B) {
	s := storetest.New(b)
	storetest.Accept(b, s, storetest.Say(storetest.Chat, 1, "look"))
	turn := storetest.Begin(b, s, storetest.Chat, 1000)
	j := New(s)
	run := Run{ID: turn.Waiting[0].ID, Key: storetest.Chat, Channel: "telegram", Took: []Message{{ID: turn.Waiting[0].ID}}, StartedAt: time.Now()}
	for n := 0; b.Loop(); n++ {
		call := fmt.Sprint("call-", n)
		said := conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: call, Name: "look", Arguments: "{}"}}}
		if _, err := j.AddRound(b.Context(), run, Round{Said: said, Steps: []steps.Step{{Kind: steps.Model, Name: "m"}}}, []string{call}); err != nil {
			b.Fatal(err)
		}
		result := Result{Message: conversation.Message{Role: conversation.RoleTool, ToolCallID: call, Content: "seen"}, Step: steps.Step{Kind: steps.Tool, Name: "look", CallID: call}}
		if _, err := j.AddResult(b.Context(), run, result); err != nil {
			b.Fatal(err)
		}
	}
}
