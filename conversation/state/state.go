// Package state keeps the state of a conversation: a few facts beside its messages, which the model is told in every
// run. These are the rules and decisions in force, the files that were written, and what failed. An [Event] is one
// change of a [State]. Package conversation stores the state with its conversation.
package state

import (
	"slices"
	"strings"
	"time"

	"parley/conversation/internal/db"
)

// State is the state of a conversation.
type State struct {
	Turns       int64     `json:"turns,omitempty"` // number of turns, without those that were taken back
	Asked       bool      `json:"asked,omitempty"` // the last turn has no answer yet
	Model       string    `json:"model,omitempty"` // the model that answered last
	Directory   string    `json:"directory,omitempty"`
	Repository  string    `json:"repository,omitempty"`
	Constraints []Note    `json:"constraints,omitempty"` // the rules
	Decisions   []Note    `json:"decisions,omitempty"`
	Files       []Note    `json:"files,omitempty"`
	Failures    []Failure `json:"failures,omitempty"`

	// Before is a summary of the session's previous conversation, "" for none.
	Before string `json:"before,omitempty"`

	Numbered  int64 `json:"numbered,omitempty"`  // the highest number that a rule or a decision has had
	Forgotten int64 `json:"forgotten,omitempty"` // how many rules and decisions were dropped because there were too many

	Instructions []string `json:"instructions,omitempty"` // the system messages that programs have given to the session
}

// Note is one line of the state.
type Note struct {
	Text string `json:"text"`
	Turn int64  `json:"turn,omitempty"` // the turn in which it was last said, from 1; 0 = in an earlier conversation

	// Number identifies a rule or a decision within its conversation. It does not change and is not used again. It
	// is 0 in notes that an older gateway has stored, see State.WithNumbers.
	Number int64 `json:"n,omitempty"`
	Set    bool  `json:"set,omitempty"` // a person or a program has set it outside the talk, so /undo keeps it
}

// Failure is a command or a tool call that failed.
type Failure struct {
	Note
	Error    string `json:"error"`
	Resolved bool   `json:"resolved,omitempty"` // the same command or call has succeeded since
}

// The limits of a state. When a list is full, its oldest note is dropped; Forgotten counts the rules and decisions
// that were dropped. MaxNote is the length of a note in characters.
const (
	MaxConstraints = 100
	MaxDecisions   = 50
	maxFiles       = 20
	maxFailures    = 5
	MaxNote        = 400
)

// EventKind says what an event changes.
type EventKind int

const (
	Constrained EventKind = iota // a rule was set
	Decided                      // a decision was made
	Withdrawn                    // a rule or a decision no longer holds
	Touched                      // a file was written
	Failed                       // a command or a tool call failed
	Succeeded                    // the same succeeded, which resolves an earlier failure
	Instructed                   // a program gave a system message
	Answered                     // a model answered; the text is its name
	Entered                      // the working directory changed
	Cloned                       // a repository was cloned or entered
)

// Event is one change of the state.
type Event struct {
	Kind  EventKind
	Text  string // the rule, decision, file, command, name or directory, or a whole system message
	Error string // only with Failed: the error

	Message int  // the index in Run.Messages of the message that causes the event
	Set     bool // only with Constrained and Decided: see Note.Set
}

// Without returns the state without the notes of the given turn and later ones. Notes with Set stay.
func (s State) Without(turn int64) State {
	late := func(n Note) bool { return n.Turn >= turn && !n.Set }
	s.Constraints = slices.DeleteFunc(slices.Clone(s.Constraints), late)
	s.Decisions = slices.DeleteFunc(slices.Clone(s.Decisions), late)
	s.Files = slices.DeleteFunc(slices.Clone(s.Files), late)
	s.Failures = slices.DeleteFunc(slices.Clone(s.Failures), func(f Failure) bool { return late(f.Note) })
	return s
}

// With returns the state with one event added. It shares no memory with s.
func (s State) With(e Event) State {
	if e.Kind == Instructed {
		if !slices.Contains(s.Instructions, e.Text) { // else a program repeats what holds already
			s.Instructions = append(slices.Clip(s.Instructions), e.Text)
		}
		return s
	}
	n := Note{Text: Line(e.Text), Turn: s.Turns, Set: e.Set}
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
		s.Failures = newestOf(append(list, Failure{Note: n, Error: Line(e.Error)}), maxFailures)
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

// noted returns the list with the note n at its end. If the list has a note with the same text, n replaces it and takes
// its number; else n gets the next number.
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

// WithNumbers returns the state with a number for each rule and decision. It numbers the notes that an older gateway has
// stored without a number, always in the same way.
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

// Carry says which lists of a state the next conversation of the session takes over.
type Carry struct {
	Rules     bool
	Decisions bool
}

// Carried returns the state with which the next conversation begins. It always has the instructions, which belong to the
// session.
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

// struck returns a copy of the list without notes of the given text.
func struck(list []Note, text string) []Note {
	return slices.DeleteFunc(slices.Clone(list), func(n Note) bool { return strings.EqualFold(n.Text, text) })
}

// newestOf returns the last elements of a list, at most limit.
func newestOf[T any](list []T, limit int) []T { return list[max(0, len(list)-limit):] }

// Line returns a text on one line of at most MaxNote characters.
func Line(text string) string {
	text = strings.Join(strings.Fields(db.Text(text)), " ")
	if len(text) <= MaxNote {
		return text
	}
	if runes := []rune(text); len(runes) > MaxNote {
		return string(runes[:MaxNote-1]) + "…"
	}
	return text
}

// Limits say when a conversation expires, and what the next one takes over.
type Limits struct {
	Idle     time.Duration // how long it may go unused; 0 = for ever
	Messages int64         // how many messages it may have; 0 = any number
	Carry    Carry
}
