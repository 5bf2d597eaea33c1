package conversation

import (
	"context"
	"encoding/json"
	"fmt"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/state"
)

// Instructions are what the model is told in every run of a session. A program gives
// them, as system messages or all at once. They belong to the session: its next
// conversation begins with them.

// instructions returns what system messages add to the state of a conversation.
func instructions(messages []Message) (events []state.Event) {
	for i, m := range messages {
		if m.Role == RoleSystem {
			events = append(events, state.Event{Kind: state.Instructed, Text: m.Content, Message: i})
		}
	}
	return events
}

// SetInstructions replaces the instructions of a session, which is made when it is new.
// They hold from the next run on. Without any, or with one that is empty, it is as if none
// had been given. More than 16 KiB of them are ErrInvalid.
func (s *Store) SetInstructions(ctx context.Context, key Key, list ...string) error {
	var given state.State
	for _, text := range list {
		if text = db.Text(text); text != "" {
			given.Instructions = append(given.Instructions, text)
		}
	}
	if err := rows.CheckInstructions(given.Instructions); err != nil {
		return err
	}
	err := s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		session, entered, err := rows.EnterSession(ctx, tx, string(key), "", db.Millis(s.Now()))
		if err != nil {
			return err
		}
		return storeInstructions(ctx, tx, Key(entered), session, given.Instructions)
	})
	if err != nil {
		return fmt.Errorf("set the instructions of %s: %w", key, err)
	}
	return nil
}

// storeInstructions replaces the instructions of a session.
func storeInstructions(ctx context.Context, tx db.Tx, key Key, session int64, list []string) error {
	// On PostgreSQL, this waits for a run that begins the session's first conversation at this moment, and keeps others from beginning one.
	if _, err := tx.ExecContext(ctx, `SELECT 1 FROM sessions WHERE id = ?`+db.ToChange(`sessions`), session); err != nil {
		return err
	}
	c, err := activeToChange(ctx, tx, key)
	if err != nil {
		return err
	}
	c.State.Instructions = list
	if c.row != 0 {
		return storeState(ctx, tx, c)
	}
	carried, err := json.Marshal(c.State)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE sessions SET carried = ? WHERE id = ?`, string(carried), session)
	}
	return err
}

// setSession stores what the effect of a run changes of its session.
func setSession(ctx context.Context, tx db.Tx, run *Run, session int64) error {
	e, c := run.Effect, &run.Conversation
	if e.Model != nil || e.Agent != nil || e.Fallback != nil {
		for _, field := range []struct{ to, from *string }{{&c.Model, e.Model}, {&c.Agent, e.Agent}, {&c.Fallback, e.Fallback}} {
			if field.from != nil {
				*field.to = db.Text(*field.from)
			}
		}
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET model = coalesce(?, model), agent = coalesce(?, agent), fallback = coalesce(?, fallback) WHERE id = ?`,
			e.Model, e.Agent, e.Fallback, session)
		if err != nil {
			return err
		}
	}
	if e.Instructions == nil {
		return nil
	}
	var list []string
	if text := db.Text(*e.Instructions); text != "" {
		list = []string{text}
	}
	if err := rows.CheckInstructions(list); err != nil {
		return err
	}
	return storeInstructions(ctx, tx, run.Key, session, list)
}

// Correct changes the state of the active conversation of a session, which is made when
// there is none, and returns it as it is then. record is an internal message with its
// tokens, by which the archive keeps the change. The error is ErrInvalid for a correction
// that is not possible, and ErrNoSession for a session that does not exist. The caller holds
// the session's lock.
func (s *Store) Correct(ctx context.Context, key Key, correction state.Correction, record Message) (c Conversation, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		if c, err = activeToChange(ctx, tx, key); err != nil {
			return err
		}
		if c.session == 0 {
			return ErrNoSession
		}
		events, err := correction.Events(c.State.WithNumbers())
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		record.Role, record.Internal = RoleSystem, true
		c, _, err = appendMessages(ctx, tx, Run{Key: key, Conversation: c, Messages: []Message{record}, Events: events}, c.session, s.Now())
		return err
	})
	return c, err
}

func storeState(ctx context.Context, tx db.Tx, c Conversation) error {
	state, err := json.Marshal(c.State)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE conversations SET state = ? WHERE id = ?`, string(state), c.row)
	}
	return err
}

// stateAfter returns the state of a conversation when a run has been added to it. It shares no memory with s.
func stateAfter(s state.State, run Run) state.State {
	if run.Effect.Replace > 0 {
		s = s.Without(s.Turns)
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
			s, events = s.With(events[0]), events[1:]
		}
	}
	for _, e := range events {
		s = s.With(e)
	}
	if run.Model != "" {
		s.Model = state.Line(run.Model)
	}
	return s
}
