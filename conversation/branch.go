package conversation

import (
	"context"
	"database/sql"
	"errors"

	"parley/conversation/internal/branching"
	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// How runs branch a conversation: an edit begins a branch in place of the turn that it
// replaces, and /retry one in place of an answer. What was there is set aside.

// branchOff sets aside the messages from Effect.Undo on, and returns the run with the
// conversation as it is without them. Where the conversation was deleted meanwhile, it does
// nothing.
func branchOff(ctx context.Context, tx db.Tx, run Run) (Run, error) {
	known, from := run.Conversation, run.Effect.Undo
	tree, err := branching.Read(ctx, tx, known.row)
	if errors.Is(err, sql.ErrNoRows) {
		return run, nil
	}
	if err != nil {
		return run, err
	}
	turn, err := turns.Of(ctx, tx, known.row, from)
	if err == nil {
		err = tree.Leave(ctx, tx, known.row)
	}
	if err == nil {
		_, err = branching.SetAside(ctx, tx, known.row, from-1, false)
	}
	if err != nil {
		return run, err
	}
	parent := tree.Parent(from)
	run.follows = &parent
	run.Conversation, err = withoutTurns(ctx, tx, known, turn)
	return run, err
}

// replaceAnswer sets aside the answer that the run answers anew. What a program has
// appended while the run went on is none of it, and then the answer is no branch.
func replaceAnswer(ctx context.Context, tx db.Tx, run Run) (Run, error) {
	known, asked := run.Conversation, run.Effect.Replace
	tree, err := branching.Read(ctx, tx, known.row)
	if errors.Is(err, sql.ErrNoRows) {
		return run, nil
	}
	if err != nil {
		return run, err
	}
	if tree.Newest() != known.Messages {
		return run, hideAnswer(ctx, tx, run)
	}
	if err := tree.Leave(ctx, tx, known.row); err != nil {
		return run, err
	}
	n, err := branching.SetAside(ctx, tx, known.row, asked, true)
	if n > 0 {
		run.follows = &asked
	}
	return run, err
}

// beginBranch notes where the run's messages belong in the conversation that they were
// added to: after the last message of its chosen branch, the tip, which is 0 where it has no branches.
func beginBranch(ctx context.Context, tx db.Tx, run Run, c Conversation, tip int64) error {
	first := c.Messages - int64(len(run.Messages)) + 1
	if run.follows != nil && c.row == run.Conversation.row {
		return branching.Begin(ctx, tx, c.row, first, *run.follows)
	}
	if tip == 0 {
		return nil
	}
	return branching.Begin(ctx, tx, c.row, first, tip)
}

// withoutTurns returns a conversation whose turns from one on were taken out of the talk,
// with the state that it has without them, which is stored.
func withoutTurns(ctx context.Context, tx db.Tx, known Conversation, turn int64) (Conversation, error) {
	var place string
	c, err := scanConversation(tx.QueryRowContext(ctx, selectConversations+`WHERE c.id = ? AND c.deleted = 0`+toChange, known.row), &place)
	if errors.Is(err, sql.ErrNoRows) {
		return known, nil
	}
	if err != nil {
		return known, err
	}
	c.State = c.State.Without(turn)
	if c.State.Turns, err = turns.Of(ctx, tx, c.row, c.Messages); err != nil {
		return c, err
	}
	if c.State.Asked, err = turns.Unanswered(ctx, tx, c.row); err != nil {
		return c, err
	}
	return c, storeState(ctx, tx, c)
}

// hideAnswer takes the answer out of the talk without a branch.
func hideAnswer(ctx context.Context, tx db.Tx, run Run) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE messages SET state = 'replaced' WHERE conversation_id = ? AND seq > ? AND seq <= ? AND role <> ? AND `+turns.Visible,
		run.Conversation.row, run.Effect.Replace, run.Conversation.Messages, RoleUser)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM summaries WHERE conversation_id = ? AND through > ?`, run.Conversation.row, run.Effect.Replace)
	}
	return err
}
