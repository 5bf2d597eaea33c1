package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/activity"
)

// A slow listener reads several steps at once: it gets them in the order in which they happened, and
// its deltas still make up the text.
func TestSlowListenerGetsStepsInOrder(t *testing.T) {
	t.Parallel()
	running := []activity.ToolProgress{{ID: "1"}}
	done := []activity.ToolProgress{{ID: "1", Done: true}}
	for name, c := range map[string]struct {
		seen []activity.Progress
		want []string
	}{
		"a call, and the answer behind it": {
			[]activity.Progress{{Run: 1, Text: "It is late.", Tools: done}},
			[]string{eventToolCall, eventToolResult, eventDelta},
		},
		"words, and the call that they announce": {
			[]activity.Progress{{Run: 1, Text: "Let me look.", Tools: running}},
			[]string{eventDelta, eventToolCall},
		},
		"half of the words, then all and the call": {
			[]activity.Progress{{Run: 1, Text: "Let me"}, {Run: 1, Text: "Let me look.", Tools: done}},
			[]string{eventDelta, eventDelta, eventToolCall, eventToolResult},
		},
		"words, then the call and the answer": {
			[]activity.Progress{{Run: 1, Text: "Let me look."}, {Run: 1, Text: "It is late.", Tools: done}},
			[]string{eventDelta, eventToolCall, eventToolResult, eventReset, eventDelta},
		},
		"another run": {
			[]activity.Progress{{Run: 1, Text: "It is"}, {Run: 2, Text: "It is late."}},
			[]string{eventDelta, eventReset, eventDelta},
		},
	} {
		var f follower
		var got []string
		for _, p := range c.seen {
			for _, e := range f.follow(p) {
				got = append(got, e.Name)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || f.text != c.seen[len(c.seen)-1].Text {
			t.Errorf("%s: %q: %s", name, f.text, diff)
		}
	}
}

// The tool calls of a run are sent even if it ended before the listener read anything of it.
func TestToolCallsOfAFinishedRunAreSent(t *testing.T) {
	t.Parallel()
	f := follower{}
	f.follow(activity.Progress{Run: 1, Tools: []activity.ToolProgress{{ID: "1"}}})
	var got []string
	for _, e := range f.missed([]usedTool{{ID: "1"}, {ID: "2"}, {ID: "1"}}) {
		got = append(got, e.Name)
	}
	want := []string{eventToolResult, eventToolCall, eventToolResult, eventToolCall, eventToolResult}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
