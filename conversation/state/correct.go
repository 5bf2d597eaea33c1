package state

import (
	"fmt"
	"slices"
)

// Correction is what a program changes in the state of a conversation.
type Correction struct {
	Rules     []string // to add
	Decisions []string // to add
	Strike    []int64  // numbers of rules and decisions to remove
}

// Events returns the correction as events, given the state that it changes. What is struck
// goes first. It returns an error for a number that is not there, an empty or a long text,
// and for more than the state holds.
func (c Correction) Events(s State) (events []Event, err error) {
	for _, number := range c.Strike {
		notes := slices.Concat(s.Constraints, s.Decisions)
		i := slices.IndexFunc(notes, func(n Note) bool { return n.Number == number })
		if i < 0 {
			return nil, fmt.Errorf("there is no rule or decision %d", number)
		}
		events = append(events, Event{Kind: Withdrawn, Text: notes[i].Text})
	}
	add := func(kind EventKind, texts []string) error {
		for _, text := range texts {
			if n := len([]rune(text)); n > MaxNote || Line(text) == "" {
				return fmt.Errorf("a rule or a decision has 1 to %d letters, this has %d", MaxNote, n)
			}
			events = append(events, Event{Kind: kind, Text: text, Set: true})
		}
		return nil
	}
	if err := add(Constrained, c.Rules); err != nil {
		return nil, err
	}
	if err := add(Decided, c.Decisions); err != nil {
		return nil, err
	}
	after := s
	for _, e := range events {
		after = after.With(e)
	}
	if after.Forgotten > s.Forgotten {
		return nil, fmt.Errorf("a conversation has at most %d rules and %d decisions", MaxConstraints, MaxDecisions)
	}
	return events, nil
}
