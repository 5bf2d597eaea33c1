package conversation

import (
	"slices"
	"strings"

	"parley/conversation/internal/db"
)

// State is what is kept of a conversation in a few words for the model, beside
// its messages: what was decided, what was touched, what went wrong.
type State struct {
	Turns       int64     `json:"turns,omitempty"` // exchanges, those taken back not among them
	Asked       bool      `json:"asked,omitempty"` // the last of them has no answer yet
	Constraints []Note    `json:"constraints,omitempty"`
	Decisions   []Note    `json:"decisions,omitempty"`
	Files       []Note    `json:"files,omitempty"`
	Failures    []Failure `json:"failures,omitempty"`

	Instructions []string `json:"instructions,omitempty"` // the system messages that programs have appended
}

// Note is one line of the state.
type Note struct {
	Text string `json:"text"`
	Turn int64  `json:"turn"` // when it was last said, from 1
}

// Failure is something that went wrong.
type Failure struct {
	Note
	Error    string `json:"error"`
	Resolved bool   `json:"resolved,omitempty"` // the same was done later, and went well
}

// The most that a state holds of each kind; the oldest go first.
const (
	maxConstraints = 10
	maxDecisions   = 10
	maxFiles       = 20
	maxFailures    = 5
	maxNote        = 200 // runes of a line
)

// EventKind is what happened.
type EventKind int

const (
	Constrained EventKind = iota // a rule was set
	Decided
	Withdrawn // a rule or a decision no longer holds
	Touched   // a file was written
	Failed
	Succeeded // which resolves a failure of the same
	Instructed
)

// Event is something that a run adds to the state.
type Event struct {
	Kind  EventKind
	Text  string // the rule, the decision, the file, what was done, or a whole system message
	Error string // of Failed: how it went wrong
}

// after is the state when a run has been added to it. It shares no memory with
// this one.
func (s State) after(run Run) State {
	if run.Effect.Replace > 0 {
		s = s.without(s.Turns)
		s.Asked = true
	}
	for _, m := range run.Messages {
		if m.Internal {
			continue
		}
		asks := m.Role == RoleUser
		if asks && !s.Asked {
			s.Turns++
		}
		s.Asked = asks
	}
	for _, e := range run.Events {
		s = s.with(e)
	}
	return s
}

// without leaves out what was said from a turn on.
func (s State) without(turn int64) State {
	late := func(n Note) bool { return n.Turn >= turn }
	s.Constraints = slices.DeleteFunc(slices.Clone(s.Constraints), late)
	s.Decisions = slices.DeleteFunc(slices.Clone(s.Decisions), late)
	s.Files = slices.DeleteFunc(slices.Clone(s.Files), late)
	s.Failures = slices.DeleteFunc(slices.Clone(s.Failures), func(f Failure) bool { return late(f.Note) })
	return s
}

func (s State) with(e Event) State {
	if e.Kind == Instructed {
		s.Instructions = append(slices.Clip(s.Instructions), e.Text)
		return s
	}
	n := Note{Text: noteText(e.Text), Turn: s.Turns}
	if n.Text == "" {
		return s
	}
	switch e.Kind {
	case Constrained:
		s.Constraints = noted(s.Constraints, n, maxConstraints)
	case Decided:
		s.Decisions = noted(s.Decisions, n, maxDecisions)
	case Withdrawn:
		s.Constraints, s.Decisions = struck(s.Constraints, n.Text), struck(s.Decisions, n.Text)
	case Touched:
		s.Files = noted(s.Files, n, maxFiles)
	case Failed:
		same := func(f Failure) bool { return f.Text == n.Text }
		list := slices.DeleteFunc(slices.Clone(s.Failures), same)
		s.Failures = newestOf(append(list, Failure{Note: n, Error: noteText(e.Error)}), maxFailures)
	case Succeeded:
		s.Failures = slices.Clone(s.Failures)
		for i := range s.Failures {
			s.Failures[i].Resolved = s.Failures[i].Resolved || s.Failures[i].Text == n.Text
		}
	}
	return s
}

// noted adds a note, in place of one with the same text.
func noted(list []Note, n Note, limit int) []Note {
	return newestOf(append(struck(list, n.Text), n), limit)
}

func struck(list []Note, text string) []Note {
	return slices.DeleteFunc(slices.Clone(list), func(n Note) bool { return strings.EqualFold(n.Text, text) })
}

func newestOf[T any](list []T, limit int) []T { return list[max(0, len(list)-limit):] }

// noteText is a text on one line, shortened.
func noteText(text string) string {
	text = strings.Join(strings.Fields(db.Text(text)), " ")
	if len(text) <= maxNote {
		return text
	}
	if runes := []rune(text); len(runes) > maxNote {
		return string(runes[:maxNote-1]) + "…"
	}
	return text
}
