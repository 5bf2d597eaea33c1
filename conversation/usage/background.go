package usage

import (
	"context"
	"fmt"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
	"parley/conversation/steps"
)

// Background has the model calls that were made after the commit of a run, for a title or a summary.
type Background struct {
	Conversation string               // the ID of the conversation
	Run          int64                // the ID of the run
	Channel      string               // the channel of the messages that the run answered
	Person       conversation.Sender  // the sender of the first of these messages
	Shares       []conversation.Share // for whom the run was made, as Run.Shares
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
	shares := b.Shares
	if len(shares) == 0 {
		shares = []conversation.Share{{Sender: b.Person, Weight: 1}}
	}
	for i, part := range conversation.SplitStep(step, shares) {
		err := runtotals.AddCall(ctx, tx, runtotals.Call{
			At: now, Channel: b.Channel, Person: shares[i].Sender.ID, Name: db.Text(shares[i].Sender.Name), Model: db.Text(step.Name), Prompt: part.Prompt,
			Cached: part.Cached, Completion: part.Completion, Cost: part.Cost,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
