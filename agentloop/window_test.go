package agentloop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/llm"
	"parley/tools"
)

// randomWindow is a history as runs leave it: questions, failed runs without an
// answer, tool rounds, and messages of all sizes.
func randomWindow(r *rand.Rand, counter Counter) window {
	text := func() string { return strings.Repeat(fmt.Sprintf("word%d ", r.IntN(1000)), 1<<r.IntN(8)) }
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
	router := &Router{Parts: Parts{Config: Config{SystemPrompt: w.system}, Counter: counter, Tools: &tools.Registry{}}}
	w.fixed = router.countFixed()
	var past []entry
	for range r.IntN(6) {
		for _, m := range append(exchange(), llm.Message{Role: "assistant", Content: text()}) {
			past = append(past, entry{Message: m, tokens: counter.Message(m)})
		}
	}
	w.history = rows(past)
	for i := range w.history {
		w.history[i].Seq = w.older + int64(i) + 1
	}
	for _, m := range exchange() {
		w.current = append(w.current, entry{Message: m, tokens: counter.Message(m)})
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
	t.Parallel()
	counter := llm.NewCounter("")
	for seed := range uint64(300) {
		w := randomWindow(rand.New(rand.NewPCG(seed, 1)), counter)
		budget := 400 + int(seed*37%2000)
		list := w.build(budget)
		if err := checkList(list); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if sum := tokensOf(counter, list); sum > budget {
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

// windowOf is the window of a conversation with the usual frame.
func windowOf(counter Counter, system string, history []llm.Message, question string) window {
	router := &Router{Parts: Parts{Config: Config{SystemPrompt: system}, Counter: counter, Tools: &tools.Registry{}}}
	w := window{counter: counter, system: system, fixed: router.countFixed()}
	var past []entry
	for _, m := range history {
		past = append(past, entry{Message: m, tokens: counter.Message(m)})
	}
	w.history = rows(past)
	asked := llm.Message{Role: "user", Content: question}
	w.current = []entry{{Message: asked, tokens: counter.Message(asked)}}
	return w
}

func tokensOf(counter Counter, list []llm.Message) int {
	sum := replyTokens
	for _, m := range list {
		sum += counter.Message(m)
	}
	return sum
}

// With a system prompt larger than the window the assistant still reads the
// question, and still knows the beginning of what it was told to be.
func TestHugeSystemPromptLeavesHalfOfTheBudget(t *testing.T) {
	counter := llm.NewCounter("")
	question := strings.Repeat("Why is the sky blue? ", 60)
	w := windowOf(counter, "You are a pirate. "+strings.Repeat("Never lie. ", 5000), nil, question)
	const budget = 1000
	list := w.build(budget)
	if list[1].Content != question {
		t.Errorf("the question reached the model as %q", list[1].Content)
	}
	if system := list[0].Content; !strings.HasPrefix(system, "You are a pirate.") || !strings.Contains(system, cutNotice) {
		t.Errorf("the system prompt is %.60q", system)
	}
	if n := tokensOf(counter, list); n > budget || w.counted(budget).tokens > budget {
		t.Errorf("%d tokens, told as %d, with a budget of %d", n, w.counted(budget).tokens, budget)
	}
}

// A model with a large window is shown much of a text that is larger still.
func TestHugeTextFillsALargeWindow(t *testing.T) {
	counter := llm.NewCounter("")
	w := windowOf(counter, "Be brief.", nil, strings.Repeat("word ", 300_000))
	const budget = 120_000
	shown := w.build(budget)[1].Content
	if n := len(shown); n < budget || n > 5*budget {
		t.Errorf("%d bytes of the text are shown, %.20q", n, shown)
	}
}

func TestOperatorIsToldOfATooLongSystemPrompt(t *testing.T) {
	router := func(prompt string) *Router {
		h := newHouse(t, func(p *Parts) { p.SystemPrompt = prompt })
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

// After a very long exchange "and shorter?" must not meet a model that knows
// nothing of it.
func TestExchangeLargerThanTheRoomIsShownCut(t *testing.T) {
	counter := llm.NewCounter("")
	long := func(word string) string { return strings.Repeat(word+" ", 700) }
	history := []llm.Message{
		{Role: "user", Content: "long ago"},
		{Role: "assistant", Content: "an old answer"},
		{Role: "user", Content: long("question")},
		{Role: "assistant", ToolCalls: []llm.ToolCall{{ID: "c1", Name: "read", Arguments: "{}"}}},
		{Role: "tool", ToolCallID: "c1", Name: "read", Content: long("result")},
		{Role: "assistant", Content: long("answer")},
	}
	w := windowOf(counter, "Be brief.", history, "and shorter?")
	const budget = 1000
	list := w.build(budget)
	if err := checkList(list); err != nil {
		t.Fatal(err)
	}
	if n := tokensOf(counter, list); n > budget {
		t.Errorf("%d tokens with a budget of %d", n, budget)
	}
	if len(list) != 6 {
		t.Fatalf("the model is shown %d messages, want the system prompt, the four of the exchange and the question", len(list))
	}
	for i, word := range map[int]string{1: "question", 3: "result", 4: "answer"} {
		if !strings.HasPrefix(list[i].Content, word) || !strings.Contains(list[i].Content, cutNotice) {
			t.Errorf("message %d is %.60q", i, list[i].Content)
		}
	}
	if !strings.Contains(list[0].Content, "[2 earlier messages") {
		t.Errorf("the model is not told what is left out: %q", list[0].Content)
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
