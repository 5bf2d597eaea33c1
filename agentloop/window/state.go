package window

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"parley/conversation"
	"parley/conversation/state"
	"parley/plaintext"
	"parley/tools"
)

// StateText returns the state of a conversation as YAML, equal for equal input, of at
// most budget tokens. What has no room is shortened or left out, rules last, and the
// text says how much that is and how the model can look it up. It returns "" for a
// budget of 0.
func StateText(c conversation.Conversation, focus string, counter Counter, budget int) string {
	if budget <= 0 {
		return ""
	}
	steps := reductions(c.State)
	text := func(n int) string { return yamlState(c, focus, reduced(c.State, steps[:n])) }
	fits := func(n int) bool {
		text := text(n)
		return len(text) <= budget || counter.Text(text) <= budget // a token is at least a byte
	}
	for n := sort.Search(len(steps)+1, fits); n <= len(steps); n++ {
		if fits(n) { // the count of a shorter text may be higher by a little
			return text(n)
		}
	}
	return ""
}

// reduction is one step by which a state gets shorter.
type reduction struct {
	list  section // which list it shortens
	limit int     // runes that each line of the list keeps; 0: the oldest line is left out
}

// section is a list of a state, by its name in the text.
type section string

const (
	constraints section = "constraints"
	decisions   section = "decisions"
	files       section = "files"
	failures    section = "errors"
	resolved    section = "resolved errors" // errors that a later success has resolved
)

// reductions returns the steps by which a state gets shorter, the least harmful first:
// files and failures that are over, then what is left of them, then decisions, and at
// last rules. Rules and decisions are shortened before one is left out.
func reductions(s state.State) (steps []reduction) {
	leaveOut := func(list section, n int) {
		for range n {
			steps = append(steps, reduction{list: list})
		}
	}
	over := 0
	for _, f := range s.Failures {
		if f.Resolved {
			over++
		}
	}
	leaveOut(files, len(s.Files)-keptFiles)
	leaveOut(resolved, over)
	leaveOut(files, min(len(s.Files), keptFiles))
	leaveOut(failures, len(s.Failures)-over)
	steps = append(steps, reduction{decisions, 100}, reduction{constraints, 150})
	leaveOut(decisions, len(s.Decisions))
	steps = append(steps, reduction{constraints, 80}, reduction{constraints, 40})
	leaveOut(constraints, len(s.Constraints))
	return steps
}

// keptFiles is how many of the newest files are shown for as long as there are failures
// to leave out that were resolved.
const keptFiles = 5

// shown is a state as the model is shown it, and how much of it is missing.
type shown struct {
	state.State
	shortened int // number of rules and decisions that are shortened
	left      map[section]int
}

// reduced returns a state after some steps. It shares no memory with it.
func reduced(s state.State, steps []reduction) shown {
	out := shown{State: s, left: map[section]int{}}
	limits := map[section]int{}
	for _, step := range steps {
		if step.limit > 0 {
			limits[step.list] = step.limit
			continue
		}
		switch step.list {
		case files:
			out.Files = out.Files[1:]
		case resolved:
			i := slices.IndexFunc(out.Failures, func(f state.Failure) bool { return f.Resolved })
			out.Failures = slices.Delete(slices.Clone(out.Failures), i, i+1)
		case failures:
			out.Failures = out.Failures[1:]
		case decisions:
			out.Decisions = out.Decisions[1:]
		case constraints:
			out.Constraints = out.Constraints[1:]
		}
		out.left[step.list]++
	}
	out.Constraints = out.shorten(out.Constraints, limits[constraints])
	out.Decisions = out.shorten(out.Decisions, limits[decisions])
	return out
}

// shorten returns notes of at most limit runes each, and counts those that are
// shortened. A limit of 0 is none.
func (s *shown) shorten(notes []state.Note, limit int) []state.Note {
	if limit == 0 {
		return notes
	}
	notes = slices.Clone(notes)
	for i := range notes {
		if short := plaintext.ShortLine(notes[i].Text, limit); short != notes[i].Text {
			notes[i].Text = short
			s.shortened++
		}
	}
	return notes
}

// missing returns what of the state is not shown, in words for the model, or "".
func (s *shown) missing() string {
	var parts []string
	for _, name := range []section{constraints, decisions, failures, resolved, files} {
		if n := s.left[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s not shown", n, name))
		}
	}
	if s.shortened > 0 {
		parts = append(parts, fmt.Sprintf("%d lines shortened", s.shortened))
	}
	var look []string
	if len(parts) > 0 {
		look = append(look, strings.Join(parts, ", ")+": "+tools.RecallName+" with action summary shows them")
	}
	if s.Forgotten > 0 {
		look = append(look, fmt.Sprintf("%d of the oldest constraints and decisions no longer kept here: %s with action tool_calls and tool_name %s finds them",
			s.Forgotten, tools.RecallName, tools.SessionStateName))
	}
	return strings.Join(look, "; ")
}

func yamlState(c conversation.Conversation, focus string, s shown) string {
	var b strings.Builder
	if c.ID != "" {
		fmt.Fprintf(&b, "conversation: %s\n", c.ID)
	}
	if s.Turns > 0 || c.Tokens > 0 || c.ID != "" {
		fmt.Fprintf(&b, "turns: %d\ntokens: %d\n", s.Turns, c.Tokens)
	}
	for _, line := range []struct{ name, text string }{
		{"model", s.Model}, {"workspace", s.Directory}, {"repository", s.Repository}, {"focus", focus}, {"not_shown", s.missing()},
	} {
		if line.text != "" {
			fmt.Fprintf(&b, "%s: %s\n", line.name, yamlString(line.text))
		}
	}
	yamlNotes(&b, "constraints", s.Constraints)
	yamlNotes(&b, "decisions", s.Decisions)
	yamlNotes(&b, "files", s.Files)
	if len(s.Failures) > 0 {
		b.WriteString("errors:\n")
	}
	for _, f := range s.Failures {
		fmt.Fprintf(&b, "  - {turn: %d, in: %s, error: %s, resolved: %t}\n", f.Turn, yamlString(f.Text), yamlString(f.Error), f.Resolved)
	}
	return b.String()
}

// yamlNotes writes notes. Those of an earlier conversation have no turn.
func yamlNotes(b *strings.Builder, name string, notes []state.Note) {
	if len(notes) > 0 {
		b.WriteString(name + ":\n")
	}
	for _, n := range notes {
		if n.Turn == 0 {
			fmt.Fprintf(b, "  - {text: %s}\n", yamlString(n.Text))
			continue
		}
		fmt.Fprintf(b, "  - {turn: %d, text: %s}\n", n.Turn, yamlString(n.Text))
	}
}

// yamlString returns a text as a JSON string, which is valid YAML:
// https://yaml.org/spec/1.2.2/#13-terminology says that JSON is a subset.
func yamlString(text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return `""` // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// maxFocus is the most characters of the focus.
const maxFocus = 120

// FocusOf returns the first line of the newest user message.
func FocusOf(history, users []conversation.Message) string {
	for _, list := range [][]conversation.Message{users, history} {
		for _, m := range slices.Backward(list) {
			if m.Role != conversation.RoleUser {
				continue
			}
			line, _, _ := strings.Cut(strings.TrimSpace(m.Content), "\n")
			return plaintext.ShortLine(line, maxFocus)
		}
	}
	return ""
}
