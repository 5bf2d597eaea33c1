package agentloop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/llm"
)

// randomWindow is a history as runs leave it: questions, failed runs without an
// answer, tool rounds, and messages of all sizes.
func randomWindow(r *rand.Rand, counter Counter) window {
	text := func() string { return strings.Repeat(fmt.Sprintf("word%d ", r.IntN(1000)), 1<<r.IntN(11)) }
	calls := func() []llm.ToolCall {
		var list []llm.ToolCall
		for i := range 1 + r.IntN(3) {
			list = append(list, llm.ToolCall{ID: fmt.Sprintf("c%d", i), Name: "tool", Arguments: fmt.Sprintf(`{"q":%q}`, text())})
		}
		return list
	}
	exchange := func() []llm.Message {
		var list []llm.Message
		for range 1 + r.IntN(3) {
			list = append(list, llm.Message{Role: "user", Content: text()})
		}
		for range r.IntN(3) {
			asked := calls()
			list = append(list, llm.Message{Role: "assistant", ToolCalls: asked})
			for _, c := range asked {
				list = append(list, llm.Message{Role: "tool", ToolCallID: c.ID, Name: c.Name, Content: text()})
			}
		}
		return list
	}
	w := window{counter: counter, system: "Be brief.", older: int64(r.IntN(3))}
	router := &Router{Parts: Parts{Config: Config{SystemPrompt: w.system}, Counter: counter}}
	w.fixed = router.countFixed()
	var past []entry
	for range r.IntN(6) {
		for _, m := range append(exchange(), llm.Message{Role: "assistant", Content: text()}) {
			past = append(past, entry{m, counter.Message(m)})
		}
	}
	w.history = rows(past)
	for i := range w.history {
		w.history[i].Seq = w.older + int64(i) + 1
	}
	for _, m := range exchange() {
		w.current = append(w.current, entry{m, counter.Message(m)})
	}
	return w
}

// checkList is what a chat completions API refuses.
func checkList(list []llm.Message) error {
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

func TestWindowIsWholeAndWithinTheBudget(t *testing.T) {
	counter := llm.NewCounter("")
	for seed := range uint64(300) {
		w := randomWindow(rand.New(rand.NewPCG(seed, 1)), counter)
		budget := 400 + int(seed*37%8000)
		list := w.build(budget)
		if err := checkList(list); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sum := counter.Tools(nil) + replyTokens
		for _, m := range list {
			sum += counter.Message(m)
		}
		if sum > budget {
			t.Fatalf("seed %d: %d tokens with a budget of %d", seed, sum, budget)
		}
		if last := list[len(list)-1]; last.Role != w.current[len(w.current)-1].Role {
			t.Fatalf("seed %d: the window ends with %s", seed, last.Role)
		}
		if diff := cmp.Diff(list, w.build(budget)); diff != "" {
			t.Fatalf("seed %d: equal input gave another window: %s", seed, diff)
		}
		hidden := int(w.older) + len(w.history) + len(w.current) - (len(list) - 1)
		if told := strings.Contains(list[0].Content, fmt.Sprintf("[%d earlier messages", hidden)); told != (hidden > 0) {
			t.Fatalf("seed %d: %d messages are not shown, and the model is told %q", seed, hidden, list[0].Content)
		}
	}
}

func TestBudgetLeavesRoomForTheAnswer(t *testing.T) {
	for _, c := range []struct{ most, window, reserve, want int }{
		{32_000, 128_000, 2000, 30_000},
		{32_000, 8_000, 2000, 4_400},
		{32_000, 8_000, 100_000, 3_200},
		{500, 100, 2000, minBudget},
	} {
		if got := Budget(c.most, c.window, c.reserve); got != c.want {
			t.Errorf("Budget(%d, %d, %d) = %d, want %d", c.most, c.window, c.reserve, got, c.want)
		}
	}
}

var _ Counter = (*llm.Counter)(nil)
