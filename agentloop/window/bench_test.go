package window

import (
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
	"parley/llm"
)

// BenchmarkWindow builds the list for a call from more history than fits.
func BenchmarkWindow(b *testing.B) {
	counter := llm.NewCounter("gpt-4o")
	question := llm.Message{Role: "user", Content: "And what about tomorrow?"}
	w := Window{counter: counter, prompt: systemPrompt, fixed: 100,
		current: []Entry{{Message: question, Tokens: counter.Message(question)}}}
	for i := range 2000 {
		m := conversation.Message{Role: conversation.RoleUser, Content: fmt.Sprintf("What is the weather like on day %d of the journey?", i)}
		if i%2 == 1 {
			m = conversation.Message{Role: conversation.RoleAssistant, Content: "It rains in the valley, and there is snow on the pass."}
		}
		m.Seq = int64(i) + 1
		m.Tokens = counter.Message(ToModel(&m))
		w.history = append(w.history, m)
	}
	for _, budget := range []int{2000, 30_000} {
		b.Run(fmt.Sprintf("budget=%d", budget), func(b *testing.B) {
			for b.Loop() {
				if list := w.Counted(budget).Messages; len(list) < 3 {
					b.Fatal(len(list))
				}
			}
		})
	}
}

// BenchmarkWindowCut builds it when one message is larger than the budget.
func BenchmarkWindowCut(b *testing.B) {
	counter := llm.NewCounter("gpt-4o")
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "Line %d of a log that was pasted whole.\n", i)
	}
	pasted := llm.Message{Role: "user", Content: text.String()}
	w := Window{counter: counter, fixed: 100, current: []Entry{{Message: pasted, Tokens: counter.Message(pasted)}}}
	for b.Loop() {
		w.Counted(30_000)
	}
}
