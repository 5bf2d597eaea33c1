package conversation

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"parley/conversation/state"
)

// Correction is what a program changes in the state of a conversation.
type Correction struct {
	Rules     []string // to add
	Decisions []string // to add
	Strike    []int64  // numbers of rules and decisions to remove
	Record    Message  // an internal message with its tokens, by which the archive keeps the change
}

// Correct changes the state of the active conversation of a session, which is made when
// there is none, and returns it as it is then. What is struck goes first. A number that
// is not there, an empty or a long text, and one more than the state holds are
// ErrInvalid. The error is ErrNoSession for a session that does not exist. The caller
// holds the session's lock.
func (s *Store) Correct(ctx context.Context, key Key, correction Correction) (c Conversation, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if c, _, err = active(ctx, tx, key); err != nil {
			return err
		}
		if c.session == 0 {
			return ErrNoSession
		}
		events, err := correction.events(c.State.WithNumbers())
		if err != nil {
			return err
		}
		record := correction.Record
		record.Role, record.Internal = RoleSystem, true
		c, _, err = appendMessages(ctx, tx, Run{Key: key, Conversation: c, Messages: []Message{record}, Events: events}, c.session, s.now())
		return err
	})
	return c, err
}

// events returns the correction as events, given the state that it changes.
func (c Correction) events(s state.State) (events []state.Event, err error) {
	for _, number := range c.Strike {
		notes := slices.Concat(s.Constraints, s.Decisions)
		i := slices.IndexFunc(notes, func(n state.Note) bool { return n.Number == number })
		if i < 0 {
			return nil, fmt.Errorf("%w: there is no rule or decision %d", ErrInvalid, number)
		}
		events = append(events, state.Event{Kind: state.Withdrawn, Text: notes[i].Text})
	}
	add := func(kind state.EventKind, texts []string) error {
		for _, text := range texts {
			if n := len([]rune(text)); n > state.MaxNote || state.Line(text) == "" {
				return fmt.Errorf("%w: a rule or a decision has 1 to %d letters, this has %d", ErrInvalid, state.MaxNote, n)
			}
			events = append(events, state.Event{Kind: kind, Text: text, Set: true})
		}
		return nil
	}
	if err := add(state.Constrained, c.Rules); err != nil {
		return nil, err
	}
	if err := add(state.Decided, c.Decisions); err != nil {
		return nil, err
	}
	after := s
	for _, e := range events {
		after = after.With(e)
	}
	if after.Forgotten > s.Forgotten {
		return nil, fmt.Errorf("%w: a conversation has at most %d rules and %d decisions", ErrInvalid, state.MaxConstraints, state.MaxDecisions)
	}
	return events, nil
}
