package state

import (
	"fmt"
	"strings"
	"testing"
)

// However many events there are, the state stays small, and keeps the newest ones.
func TestStateForgetsTheOldest(t *testing.T) {
	t.Parallel()
	var s State
	for i := range 2 * MaxConstraints {
		s.Turns++
		for _, kind := range []EventKind{Constrained, Decided, Touched, Failed} {
			s = s.With(Event{Kind: kind, Text: fmt.Sprint(i, strings.Repeat("長", 500*(i%2))), Error: strings.Repeat("e", 1000)})
		}
	}
	if a, b, c, d := len(s.Constraints), len(s.Decisions), len(s.Files), len(s.Failures); a != MaxConstraints || b != MaxDecisions || c != 20 || d != 5 {
		t.Errorf("%d constraints, %d decisions, %d files, %d failures", a, b, c, d)
	}
	if n := len([]rune(s.Constraints[MaxConstraints-1].Text)); s.Constraints[MaxConstraints-1].Turn != 2*MaxConstraints || n > MaxNote || len(s.Failures[0].Error) > MaxNote+2 {
		t.Errorf("the newest is of turn %d with %d characters", s.Constraints[MaxConstraints-1].Turn, n)
	}
}
