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
	Model       string    `json:"model,omitempty"` // that answered last
	Directory   string    `json:"directory,omitempty"`
	Repository  string    `json:"repository,omitempty"`
	Constraints []Note    `json:"constraints,omitempty"`
	Decisions   []Note    `json:"decisions,omitempty"`
	Files       []Note    `json:"files,omitempty"`
	Failures    []Failure `json:"failures,omitempty"`

	// Before is a summary of the conversation that ended before this one, "" for none.
	Before string `json:"before,omitempty"`

	Numbered  int64 `json:"numbered,omitempty"`  // the highest number of a rule or a decision so far
	Forgotten int64 `json:"forgotten,omitempty"` // rules and decisions that had no room any more

	Instructions []string `json:"instructions,omitempty"` // the system messages that programs have given to the session
}

// Note is one line of the state.
type Note struct {
	Text string `json:"text"`
	Turn int64  `json:"turn,omitempty"` // when it was last said, from 1; 0 = in an earlier conversation

	// Number names a rule or a decision: it stays the same while the note is kept,
	// and no other of the conversation gets it. 0 in notes of an older gateway, see
	// State.WithNumbers.
	Number int64 `json:"n,omitempty"`
	Set    bool  `json:"set,omitempty"` // a person or a program has set it beside the talk: /undo leaves it
}

// Failure is something that went wrong.
type Failure struct {
	Note
	Error    string `json:"error"`
	Resolved bool   `json:"resolved,omitempty"` // the same was done later, and went well
}

// The most that a state holds of each kind; the oldest go first, and Forgotten counts
// the rules and the decisions among them. MaxNote is how many characters a line has.
const (
	MaxConstraints = 100
	MaxDecisions   = 50
	maxFiles       = 20
	maxFailures    = 5
	MaxNote        = 400
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
	Answered // by a model, whose name is the text
	Entered  // a working directory
	Cloned   // a repository, or began to work in it
)

// Event is something that a run adds to the state.
type Event struct {
	Kind  EventKind
	Text  string // the rule, the decision, the file, what was done, or a whole system message
	Error string // of Failed: how it went wrong

	Message int  // the index of the message in Run.Messages that brings it
	Set     bool // of Constrained and Decided: as in Note
}

// after is the state when a run has been added to it. It shares no memory with
// this one.
func (s State) after(run Run) State {
	if run.Effect.Replace > 0 {
		s = s.without(s.Turns)
		s.Asked = true
	}
	events := run.Events
	for i, m := range run.Messages {
		if !m.Internal {
			asks := m.Role == RoleUser
			if asks && !s.Asked {
				s.Turns++
			}
			s.Asked = asks
		}
		for len(events) > 0 && events[0].Message <= i {
			s, events = s.with(events[0]), events[1:]
		}
	}
	for _, e := range events {
		s = s.with(e)
	}
	if run.Model != "" {
		s.Model = noteText(run.Model)
	}
	return s
}

// without leaves out what was said from a turn on.
func (s State) without(turn int64) State {
	late := func(n Note) bool { return n.Turn >= turn && !n.Set }
	s.Constraints = slices.DeleteFunc(slices.Clone(s.Constraints), late)
	s.Decisions = slices.DeleteFunc(slices.Clone(s.Decisions), late)
	s.Files = slices.DeleteFunc(slices.Clone(s.Files), late)
	s.Failures = slices.DeleteFunc(slices.Clone(s.Failures), func(f Failure) bool { return late(f.Note) })
	return s
}

// After returns the state when an event has been added to it, without regard to a
// message.
func (s State) After(e Event) State { return s.with(e) }

func (s State) with(e Event) State {
	if e.Kind == Instructed {
		if !slices.Contains(s.Instructions, e.Text) { // else a program repeats what holds already
			s.Instructions = append(slices.Clip(s.Instructions), e.Text)
		}
		return s
	}
	n := Note{Text: noteText(e.Text), Turn: s.Turns, Set: e.Set}
	if n.Text == "" {
		return s
	}
	switch e.Kind {
	case Constrained:
		s = s.WithNumbers()
		s.Constraints = s.noted(s.Constraints, n, MaxConstraints)
	case Decided:
		s = s.WithNumbers()
		s.Decisions = s.noted(s.Decisions, n, MaxDecisions)
	case Withdrawn:
		s = s.WithNumbers()
		s.Constraints, s.Decisions = struck(s.Constraints, n.Text), struck(s.Decisions, n.Text)
	case Touched:
		s.Files = newestOf(append(struck(s.Files, n.Text), n), maxFiles)
	case Failed:
		same := func(f Failure) bool { return f.Text == n.Text }
		list := slices.DeleteFunc(slices.Clone(s.Failures), same)
		s.Failures = newestOf(append(list, Failure{Note: n, Error: noteText(e.Error)}), maxFailures)
	case Succeeded:
		s.Failures = slices.Clone(s.Failures)
		for i := range s.Failures {
			s.Failures[i].Resolved = s.Failures[i].Resolved || s.Failures[i].Text == n.Text
		}
	case Answered:
		s.Model = n.Text
	case Entered:
		s.Directory = n.Text
	case Cloned:
		s.Repository = n.Text
	}
	return s
}

// noted returns the list with a rule or a decision behind the others. One with the
// same text gives it its number; any other gets the next one.
func (s *State) noted(list []Note, n Note, limit int) []Note {
	if i := slices.IndexFunc(list, func(old Note) bool { return strings.EqualFold(old.Text, n.Text) }); i >= 0 {
		n.Number, n.Set = list[i].Number, n.Set || list[i].Set
	} else {
		s.Numbered++
		n.Number = s.Numbered
	}
	list = append(struck(list, n.Text), n)
	s.Forgotten += int64(max(0, len(list)-limit))
	return newestOf(list, limit)
}

// WithNumbers returns the state with a number for each rule and decision. Those that
// have none, from an older gateway, get the next ones, the same whenever it is called.
func (s State) WithNumbers() State {
	for _, list := range []*[]Note{&s.Constraints, &s.Decisions} {
		*list = slices.Clone(*list)
		for i := range *list {
			if n := &(*list)[i]; n.Number == 0 {
				s.Numbered++
				n.Number = s.Numbered
			}
		}
	}
	return s
}

// Carry is what goes over from the state of one conversation to the next one of its
// session.
type Carry struct {
	Rules     bool
	Decisions bool
}

// Carried returns the state that the next conversation begins with. Instructions are
// part of it in any case: a program has given them to the session.
func (s State) Carried(c Carry) State {
	next := State{Instructions: slices.Clone(s.Instructions)}
	carry := func(wanted bool, list []Note) (notes []Note) {
		if !wanted {
			return nil
		}
		for _, n := range list {
			next.Numbered++
			notes = append(notes, Note{Text: n.Text, Number: next.Numbered, Set: n.Set})
		}
		return notes
	}
	next.Constraints = carry(c.Rules, s.Constraints)
	next.Decisions = carry(c.Decisions, s.Decisions)
	return next
}

func struck(list []Note, text string) []Note {
	return slices.DeleteFunc(slices.Clone(list), func(n Note) bool { return strings.EqualFold(n.Text, text) })
}

func newestOf[T any](list []T, limit int) []T { return list[max(0, len(list)-limit):] }

// noteText is a text on one line, shortened.
func noteText(text string) string {
	text = strings.Join(strings.Fields(db.Text(text)), " ")
	if len(text) <= MaxNote {
		return text
	}
	if runes := []rune(text); len(runes) > MaxNote {
		return string(runes[:MaxNote-1]) + "…"
	}
	return text
}
