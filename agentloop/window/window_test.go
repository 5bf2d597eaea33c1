package window

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/agentloop/window/windowtest"
	"parley/llm"
	"parley/tools"
)

// randomWindow returns a window with a history as runs leave it: questions, failed runs without an
// answer, tool rounds, and messages of all sizes.
func randomWindow(r *rand.Rand, counter Counter) Window {
	text := func() string { return strings.Repeat(fmt.Sprintf("word%d ", r.IntN(1000)), 1<<r.IntN(8)) }
	calls := func() []llm.ToolCall {
		var list []llm.ToolCall
		for i := range 1 + r.IntN(3) {
			list = append(list, llm.ToolCall{ID: fmt.Sprintf("c%d", i), Name: "tool", Arguments: fmt.Sprintf(`{"q":%q}`, text())})
		}
		return list
	}
	turn := func() []llm.Message {
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
	frame := NewFrame(counter, "Be brief.", &tools.Registry{})
	w := Window{counter: counter, prompt: frame.prompt, explanation: frame.explanation, fixed: frame.Tokens(), older: int64(r.IntN(3))}
	var past []Entry
	for range r.IntN(6) {
		for _, m := range append(turn(), llm.Message{Role: "assistant", Content: text()}) {
			past = append(past, Entry{Message: m, Tokens: counter.Message(m)})
		}
	}
	w.history = Rows(past)
	for i := range w.history {
		w.history[i].Seq = w.older + int64(i) + 1
	}
	for _, m := range turn() {
		w.current = append(w.current, Entry{Message: m, Tokens: counter.Message(m)})
	}
	return w
}

func TestRandomWindowIsValidAndWithinTheBudget(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	for seed := range uint64(100) {
		w := randomWindow(rand.New(rand.NewPCG(seed, 1)), counter)
		budget := 400 + int(seed*37%2000)
		list := w.Counted(budget).Messages
		if err := windowtest.Check(list); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if sum := windowtest.Tokens(counter, list); sum > budget {
			t.Fatalf("seed %d: %d tokens with a budget of %d", seed, sum, budget)
		}
		if last := list[len(list)-1]; last.Role != w.current[len(w.current)-1].Role {
			t.Fatalf("seed %d: the window ends with %s", seed, last.Role)
		}
		if diff := cmp.Diff(list, w.Counted(budget).Messages); diff != "" {
			t.Fatalf("seed %d: equal input gave another window: %s", seed, diff)
		}
		hidden := int(w.older) + len(w.history) + len(w.current) - (len(list) - 1)
		if told := leftIn(list); told != hidden {
			t.Fatalf("seed %d: %d messages are not shown, and the model is told of %d", seed, hidden, told)
		}
	}
}

// earlier matches what a list says of messages that it leaves out.
var earlier = regexp.MustCompile(`\[(\d+) earlier messages of this`)

// leftIn returns the number of messages that a list says it leaves out: those of earlier turns in the
// system prompt, those of the current turn in the note.
func leftIn(list []llm.Message) (left int) {
	for _, m := range list {
		text := m.Note
		if m.Role == "system" {
			text += m.Content
		}
		for _, match := range earlier.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(match[1]) // digits alone
			left += n
		}
	}
	return left
}

// windowOf returns the window of a conversation with the usual frame.
func windowOf(counter Counter, system string, history []llm.Message, question string) Window {
	frame := NewFrame(counter, system, &tools.Registry{})
	w := Window{counter: counter, prompt: frame.prompt, explanation: frame.explanation, fixed: frame.Tokens()}
	var past []Entry
	for _, m := range history {
		past = append(past, Entry{Message: m, Tokens: counter.Message(m)})
	}
	w.history = Rows(past)
	for i := range w.history {
		w.history[i].Seq = int64(i) + 1
	}
	asked := llm.Message{Role: "user", Content: question}
	w.current = []Entry{{Message: asked, Tokens: counter.Message(asked)}}
	return w
}

// With a system prompt larger than the window, the model still gets the question, the beginning of
// the prompt, and all explanations of the gateway. The system messages of programs are cut only if
// that is not enough.
func TestHugeSystemPromptLeavesHalfOfTheBudget(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	question := strings.Repeat("Why is the sky blue? ", 60)
	pirate, rhymes := "You are a pirate. "+strings.Repeat("Never lie. ", 5000), "\n\nAnswer in rhymes."
	for name, tt := range map[string]struct{ prompt, instructions, want string }{
		"prompt":       {pirate, rhymes, rhymes},
		"instructions": {"You are a pirate.", rhymes + strings.Repeat(" Never lie.", 5000), "You are a pirate.\n"},
		"both":         {pirate, rhymes + strings.Repeat(" Never lie.", 5000), rhymes},
	} {
		w := windowOf(counter, tt.prompt, nil, question)
		w.instructions = tt.instructions
		const budget = 1000
		list := w.Counted(budget).Messages
		if list[1].Content != question {
			t.Errorf("%s: the question reached the model as %q", name, list[1].Content)
		}
		system := list[0].Content
		if !strings.HasPrefix(system, "You are a pirate.") || !strings.Contains(system, CutNotice) || !strings.Contains(system, tt.want) || !strings.Contains(system, w.explanation) {
			t.Errorf("%s: the system prompt is %q", name, system)
		}
		if n := windowtest.Tokens(counter, list); n > budget || w.Counted(budget).Tokens > budget {
			t.Errorf("%s: %d tokens, told as %d, with a budget of %d", name, n, w.Counted(budget).Tokens, budget)
		}
	}
}

// Most of a large window is used for a text that exceeds it.
func TestHugeTextFillsALargeWindow(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	w := windowOf(counter, "Be brief.", nil, strings.Repeat("word ", 300_000))
	const budget = 120_000
	shown := w.Counted(budget).Messages[1].Content
	if n := len(shown); n < budget || n > 5*budget {
		t.Errorf("%d bytes of the text are shown, %.20q", n, shown)
	}
}

// A turn that exceeds the room is shown cut, not left out: a question about it, such as "and
// shorter?", must make sense to the model.
func TestTurnLargerThanTheRoomIsShownCut(t *testing.T) {
	t.Parallel()
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
	list := w.Counted(budget).Messages
	if err := windowtest.Check(list); err != nil {
		t.Fatal(err)
	}
	if n := windowtest.Tokens(counter, list); n > budget {
		t.Errorf("%d tokens with a budget of %d", n, budget)
	}
	if len(list) != 6 {
		t.Fatalf("the model is shown %d messages, want the system prompt, the four of the turn and the question", len(list))
	}
	for i, word := range map[int]string{1: "question", 3: "result", 4: "answer"} {
		if !strings.HasPrefix(list[i].Content, word) || !strings.Contains(list[i].Content, CutNotice) {
			t.Errorf("message %d is %.60q", i, list[i].Content)
		}
	}
	if left := leftIn(list); left != 2 {
		t.Errorf("the model is told that %d messages are left out", left)
	}
}

func TestBudgetLeavesRoomForTheAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ most, window, reserve, want int }{
		{32_000, 128_000, 2000, 30_000},
		{32_000, 8_000, 2000, 4_400},
		{32_000, 8_000, 100_000, 3_200},
		{500, 100, 2000, MinBudget},
	} {
		if got := Budget(c.most, c.window, c.reserve); got != c.want {
			t.Errorf("Budget(%d, %d, %d) = %d, want %d", c.most, c.window, c.reserve, got, c.want)
		}
	}
}

var _ Counter = (*llm.Counter)(nil)

// However many tool results follow it, the question stays in the window.
func TestQuestionStaysInTheWindow(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	cramped := 0
	for seed := range uint64(150) {
		w := randomWindow(rand.New(rand.NewPCG(seed, 5)), counter)
		budget := 60 + int(seed*37%900)
		l := w.Counted(budget)
		if l.Cramped {
			cramped++
			if budget > 300 {
				t.Errorf("seed %d: no room in %d tokens", seed, budget)
			}
			continue
		}
		if l.Tokens > budget && budget > 450 { // in less the frame of many calls may not fit
			t.Errorf("seed %d: %d tokens with a budget of %d", seed, l.Tokens, budget)
		}
		question := w.current[newestQuestion(w.current)]
		shown := ""
		for _, m := range l.Messages {
			if m.Role == "user" {
				shown = m.Content
			}
		}
		if shown == question.Content {
			continue
		}
		head, tail, cut := strings.Cut(shown, CutNotice)
		if !cut || !strings.HasPrefix(question.Content, head) || !strings.HasSuffix(question.Content, tail) || counter.Text(shown) < MinQuestion*8/10 {
			t.Errorf("seed %d, budget %d: the question is shown as %q", seed, budget, shown)
		}
		if err := windowtest.Check(l.Messages); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if cramped == 0 || cramped > 200 {
		t.Errorf("%d of 400 windows are cramped", cramped)
	}
}
