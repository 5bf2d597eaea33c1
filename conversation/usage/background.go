package usage

import (
	"context"
	"fmt"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
	"parley/conversation/steps"
)

// Background describes the model calls that were made after the commit of a run, for a title or a summary.
type Background struct {
	Conversation string              // ID
	Run          int64               // the run after which they were made
	Channel      string              // by which the run's messages came
	Person       conversation.Sender // who wrote the first of them
	Steps        []steps.Step
}

// AddBackground stores model calls with their run and adds their tokens to the sums. If the conversation was deleted
// meanwhile, it adds only to the sums.
func (u *Usage) AddBackground(ctx context.Context, b Background) error {
	return u.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		for _, step := range b.Steps {
			if err := addBackground(ctx, tx, b, step, db.Millis(u.store.Now())); err != nil {
				return fmt.Errorf("add a call made after run %d: %w", b.Run, err)
			}
		}
		return nil
	})
}

func addBackground(ctx context.Context, tx db.Tx, b Background, step steps.Step, now int64) error {
	text, err := steps.EncodeOne(step)
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
		At: now, Channel: b.Channel, Person: b.Person.ID, Name: db.Text(b.Person.Name), Model: db.Text(step.Name), Prompt: step.Prompt, Cached: step.Cached,
		Completion: step.Completion,
	})
}
