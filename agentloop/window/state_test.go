package window

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/state"
	"parley/llm"
)

// Within the budget, rules are kept and later notes of other kinds are dropped.
func TestStateKeepsRulesLongestAndFitsItsBudget(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	c := conversation.Conversation{ID: "0190b0a0-0000-7000-8000-000000000000", Tokens: 1 << 40}
	c.State.Turns = 1 << 40
	for i := range int64(20) {
		n := state.Note{Text: fmt.Sprintf("note %d %s", i, strings.Repeat("長い🎉", 40)), Turn: i}
		if i < 10 {
			c.State.Constraints = append(c.State.Constraints, state.Note{Text: fmt.Sprint("rule ", i), Turn: i})
			c.State.Decisions = append(c.State.Decisions, n)
		}
		if i < 5 {
			c.State.Failures = append(c.State.Failures, state.Failure{Note: n, Error: n.Text, Resolved: i%2 == 0})
		}
		c.State.Files = append(c.State.Files, n)
	}
	before := c.State.Files[0].Text
	for _, budget := range []int{0, 40, 100, 250, 800, 3000, 100_000} {
		text := StateText(c, "focus", counter, budget)
		if n := counter.Text(text); n > budget {
			t.Errorf("%d tokens with a budget of %d", n, budget)
		}
		if budget >= 250 && !strings.Contains(text, "rule 0") {
			t.Errorf("the oldest rule is gone with a budget of %d: %s", budget, text)
		}
		if diff := cmp.Diff(text, StateText(c, "focus", counter, budget)); diff != "" {
			t.Errorf("equal input gave another text: %s", diff)
		}
	}
	if c.State.Files[0].Text != before || len(c.State.Failures) != 5 || c.State.Failures[0].Turn != 0 {
		t.Error("showing the state has changed it")
	}
}

// A state that is shown in part says that something is missing.
func TestStateSaysWhatItDoesNotShow(t *testing.T) {
	counter := llm.NewCounter("")
	c := conversation.Conversation{ID: "0190b0a0-0000-7000-8000-000000000000"}
	for i := range int64(60) {
		c.State.Constraints = append(c.State.Constraints, state.Note{Turn: 1, Text: fmt.Sprintf("rule %d: %s", i, strings.Repeat("always and everywhere ", 10))})
	}
	c.State.Decisions = []state.Note{{Turn: 2, Text: "the boat is blue"}}
	for budget, want := range map[int][]string{
		100_000: {"rule 0:", "rule 59:", "the boat is blue"},
		2200:    {"rule 0:", "rule 59:", "60 lines shortened", "1 decisions not shown", "conversation_recall with action summary"},
		600:     {"rule 59:", "constraints not shown", "lines shortened"},
		120:     {"constraints not shown"},
	} {
		text := StateText(c, "", counter, budget)
		if n := counter.Text(text); n > budget {
			t.Errorf("%d tokens with a budget of %d", n, budget)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("with %d tokens it lacks %q:\n%s", budget, part, text)
			}
		}
		if (budget == 100_000) == strings.Contains(text, "not_shown") {
			t.Errorf("with %d tokens:\n%s", budget, text)
		}
		if left := 60 - strings.Count(text, "{turn: 1,"); left > 0 && !strings.Contains(text, fmt.Sprintf("%d constraints not shown", left)) {
			t.Errorf("%d rules are missing, and the text does not say so:\n%s", left, text)
		}
	}
}
