package window

import (
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
	"parley/llm"
	"parley/tools"
)

// snapshotOf returns a snapshot with a number of turns of about 45 tokens each.
func snapshotOf(counter Counter, turns int) conversation.Snapshot {
	var s conversation.Snapshot
	for i := range 2 * turns {
		m := conversation.Message{Seq: int64(i) + 1, Role: conversation.RoleUser, Content: fmt.Sprint("message ", i, strings.Repeat(" word", 15))}
		if i%2 == 1 {
			m.Role = conversation.RoleAssistant
		}
		m.Tokens = counter.Message(ToModel(&m))
		s.History = append(s.History, m)
	}
	s.Conversation.Messages = int64(2 * turns)
	return s
}

// windowFor returns the window in which a question is asked after a snapshot's history.
func windowFor(counter Counter, s conversation.Snapshot, question string, keepRecent int) Window {
	asked := conversation.Message{Role: conversation.RoleUser, Content: question}
	asked.Tokens = counter.Message(ToModel(&asked))
	return New(Input{Frame: NewFrame(counter, "Be brief.", &tools.Registry{}), Snapshot: s,
		Asked: []conversation.Message{asked}, KeepRecent: keepRecent})
}

// A window that would exceed the budget advances by many turns at once, and then stays
// until it is full again.
func TestWindowAdvancesInSteps(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	const budget = 2000
	s := snapshotOf(counter, 60)
	all := s.History
	var starts []int64
	for turns := 1; turns <= 60; turns++ {
		s.History = all[:2*turns]
		l := windowFor(counter, s, "and now?", 2).Counted(budget)
		if start := l.Window.Start; len(starts) == 0 || starts[len(starts)-1] != start {
			if len(starts) > 0 && (float64(l.Tokens) > low*budget || float64(l.Tokens) < (low-0.05)*budget) {
				t.Errorf("the window has advanced at turn %d, and takes %d tokens", turns, l.Tokens)
			}
			starts = append(starts, start)
		}
		if s.Conversation.Window = l.Window; l.Tokens > budget || l.Left != l.Window.Start-1 {
			t.Fatalf("turn %d: %d tokens, %d left out from %d on", turns, l.Tokens, l.Left, l.Window.Start)
		}
	}
	if len(starts) < 2 || len(starts) > 5 || starts[0] != 1 {
		t.Errorf("in 60 turns the window began at %v", starts)
	}
}

// When the window advances, it keeps as many of the newest messages as are configured and as the
// budget allows.
func TestNewestMessagesAreKept(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	const budget = 2000
	for keep, least := range map[int]int{2: 2, 60: 60, 1000: 70} {
		s := snapshotOf(counter, 60)
		l := windowFor(counter, s, "and now?", keep).Counted(budget)
		if shown := len(l.Messages) - 2; shown < least || l.Tokens > budget {
			t.Errorf("of %d messages to keep %d are shown, in %d tokens", keep, shown, l.Tokens)
		}
	}
}

// How messages are cut depends on the stored window alone: neither a longer question nor a larger
// budget changes a message that was sent before.
func TestMessagesAreCutTheSameWayEachTime(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	s := snapshotOf(counter, 5)
	long := &s.History[3]
	long.Content = strings.Repeat("a long answer ", 800)
	long.Tokens = counter.Message(ToModel(long))
	first := windowFor(counter, s, "and now?", 2).Counted(2000)
	s.Conversation.Window = first.Window
	if !strings.Contains(first.Messages[4].Content, CutNotice) {
		t.Fatalf("the long message is sent as %.60q", first.Messages[4].Content)
	}
	for _, budget := range []int{1900, 2000, 4000, 50_000} {
		for _, question := range []string{"?", strings.Repeat("and what about this? ", 20)} {
			l := windowFor(counter, s, question, 2).Counted(budget)
			if l.Window != first.Window {
				t.Fatalf("with a budget of %d the window is another: %+v", budget, l.Window)
			}
			if got := l.Messages[4].Content; got != first.Messages[4].Content {
				t.Errorf("with a budget of %d the long message is sent as %.60q", budget, got)
			}
		}
	}
}

// A window stays when the budget is raised a little. It begins further back only if it is far smaller
// than the budget.
func TestWindowIsNarrowAfterALargeRaiseOfTheBudget(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	s := snapshotOf(counter, 60)
	s.Conversation.Window = windowFor(counter, s, "and now?", 2).Counted(2000).Window
	for budget, narrow := range map[int]bool{2000: false, 4000: false, 20_000: true} {
		if got := windowFor(counter, s, "and now?", 2).IsNarrow(budget); got != narrow {
			t.Errorf("with a budget of %d it is narrow: %t", budget, got)
		}
	}
	s.Conversation.Window.Start = 1
	if windowFor(counter, s, "and now?", 2).IsNarrow(1_000_000) {
		t.Error("there is nothing to begin further back with")
	}
}
