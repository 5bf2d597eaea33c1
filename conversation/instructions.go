package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"parley/conversation/state"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// Instructions are what the model is told in every run of a session. A program gives
// them, as system messages or all at once. They belong to the session: its next
// conversation begins with them.

// instructionBytes is how many bytes the instructions of a session may have: the model
// is told them in every run.
const instructionBytes = 16 << 10

// checkInstructions returns ErrInvalid for a state with too many instructions.
func checkInstructions(s state.State) error {
	size := 0
	for _, text := range s.Instructions {
		size += len(text)
	}
	if size > instructionBytes {
		return fmt.Errorf("%w: the instructions of the session would have %d bytes, at most %d are taken", ErrInvalid, size, instructionBytes)
	}
	return nil
}

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
	if err := checkInstructions(given); err != nil {
		return err
	}
	err := s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		session, entered, err := rows.EnterSession(ctx, tx, string(key), "", db.Millis(s.now()))
		if err != nil {
			return err
		}
		c, _, err := active(ctx, tx, Key(entered))
		if err != nil {
			return err
		}
		c.State.Instructions = given.Instructions
		if c.row != 0 {
			return storeState(ctx, tx, c)
		}
		carried, err := json.Marshal(c.State)
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE sessions SET carried = ? WHERE id = ?`, string(carried), session)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("set the instructions of %s: %w", key, err)
	}
	return nil
}
