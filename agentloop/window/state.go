package window

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parley/conversation"
)

// StateText returns the state of a conversation as YAML, equal for equal input, of at
// most budget tokens. What does not fit is left out: the oldest files first, then
// failures, decisions and at last constraints. It returns "" for a budget of 0.
func StateText(c conversation.Conversation, focus string, counter Counter, budget int) string {
	if budget <= 0 {
		return ""
	}
	text := yamlState(c, focus)
	for len(text) > budget && counter.Text(text) > budget { // a token is at least a byte
		if !prune(&c.State) {
			return ""
		}
		text = yamlState(c, focus)
	}
	return text
}

// prune removes the least important line of a state. It returns false when there is
// none.
func prune(s *conversation.State) bool {
	resolved := slices.IndexFunc(s.Failures, func(f conversation.Failure) bool { return f.Resolved })
	switch {
	case len(s.Files) > 5:
		s.Files = s.Files[1:]
	case resolved >= 0:
		s.Failures = slices.Delete(slices.Clone(s.Failures), resolved, resolved+1)
	case len(s.Files) > 0:
		s.Files = s.Files[1:]
	case len(s.Failures) > 0:
		s.Failures = s.Failures[1:]
	case len(s.Decisions) > 0:
		s.Decisions = s.Decisions[1:]
	case len(s.Constraints) > 0:
		s.Constraints = s.Constraints[1:]
	default:
		return false
	}
	return true
}

func yamlState(c conversation.Conversation, focus string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "conversation: %s\nturns: %d\ntokens: %d\n", c.ID, c.State.Turns, c.Tokens)
	if focus != "" {
		fmt.Fprintf(&b, "focus: %s\n", yamlString(focus))
	}
	yamlNotes(&b, "constraints", c.State.Constraints)
	yamlNotes(&b, "decisions", c.State.Decisions)
	yamlNotes(&b, "files", c.State.Files)
	if len(c.State.Failures) > 0 {
		b.WriteString("errors:\n")
	}
	for _, f := range c.State.Failures {
		fmt.Fprintf(&b, "  - {turn: %d, in: %s, error: %s, resolved: %t}\n", f.Turn, yamlString(f.Text), yamlString(f.Error), f.Resolved)
	}
	return b.String()
}

func yamlNotes(b *strings.Builder, name string, notes []conversation.Note) {
	if len(notes) > 0 {
		b.WriteString(name + ":\n")
	}
	for _, n := range notes {
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
			return OneLine(line, maxFocus)
		}
	}
	return ""
}
