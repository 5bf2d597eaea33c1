package window

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/llm"
)

// Within the budget, rules are kept and later notes of other kinds are dropped.
func TestStateKeepsRulesLongestAndStaysSmall(t *testing.T) {
	counter := llm.NewCounter("")
	c := conversation.Conversation{ID: "0190b0a0-0000-7000-8000-000000000000", Tokens: 1 << 40}
	c.State.Turns = 1 << 40
	for i := range int64(20) {
		n := conversation.Note{Text: fmt.Sprintf("note %d %s", i, strings.Repeat("長い🎉", 40)), Turn: i}
		if i < 10 {
			c.State.Constraints = append(c.State.Constraints, conversation.Note{Text: fmt.Sprint("rule ", i), Turn: i})
			c.State.Decisions = append(c.State.Decisions, n)
		}
		if i < 5 {
			c.State.Failures = append(c.State.Failures, conversation.Failure{Note: n, Error: n.Text, Resolved: i%2 == 0})
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
		t.Error("to show the state has changed it")
	}
}
