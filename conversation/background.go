package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
)

// Background is model calls that were made behind the commit of a run, for a title or a
// summary.
type Background struct {
	Conversation string // ID
	Run          int64  // behind which they were made
	Channel      string // by which the run's messages came
	Person       Sender // who wrote the first of them
	Steps        []Step
}

// AddBackground stores model calls with their run and adds their tokens to the sums. Of
// a conversation that was deleted meanwhile, only the sums are kept.
func (s *Store) AddBackground(ctx context.Context, b Background) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, step := range b.Steps {
			if err := addBackground(ctx, tx, b, step, db.Millis(s.now())); err != nil {
				return fmt.Errorf("add a call behind run %d: %w", b.Run, err)
			}
		}
		return nil
	})
}

func addBackground(ctx context.Context, tx *sql.Tx, b Background, step Step, now int64) error {
	text, err := json.Marshal(storedStepOf(step, step.At))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO background_steps (conversation_id, run_id, step, started_at) SELECT id, ?, ?, ? FROM conversations WHERE uuid = ? AND deleted = 0`,
		b.Run, string(text), db.Millis(step.At), b.Conversation)
	if err != nil {
		return err
	}
	return runtotals.AddCall(ctx, tx, runtotals.Call{
		At: now, Channel: b.Channel, Person: b.Person.ID, Name: db.Text(b.Person.Name), Model: db.Text(step.Name), Prompt: step.Prompt, Completion: step.Completion,
	})
}
