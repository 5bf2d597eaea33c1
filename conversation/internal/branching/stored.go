package branching

import (
	"context"
	"encoding/json"
	"fmt"

	"parley/conversation/internal/db"
	"parley/conversation/state"
)

// Stored holds the branches of a conversation, for exports and imports.
type Stored struct {
	Tip    int64       // the last message of the chosen branch, 0 = the newest message
	Starts []Start     // in the order of Seq
	Ends   []BranchEnd // in the order of Seq
}

// BranchEnd is the last message of a branch that is not chosen, and the session state there.
type BranchEnd struct {
	Seq   int64
	State state.State
}

// Load reads the branches of a conversation, which is given by the id of its row. It leaves out
// what belongs to messages after the first ones, whose number is messages.
func Load(ctx context.Context, q db.Querier, conversation, messages int64) (s Stored, err error) {
	tree, err := Read(ctx, q, conversation)
	if err != nil {
		return s, err
	}
	if tree.tip < min(tree.newest, messages) {
		s.Tip = tree.tip
	}
	for _, start := range tree.starts[1:] {
		if start.Seq <= messages {
			s.Starts = append(s.Starts, start)
		}
	}
	rows, err := q.QueryContext(ctx, `SELECT tip, state FROM branch_states WHERE conversation_id = ? AND tip BETWEEN 1 AND ? ORDER BY tip`, conversation, messages)
	if err != nil {
		return s, err
	}
	defer rows.Close()
	for rows.Next() {
		var end BranchEnd
		var encoded []byte
		if err := rows.Scan(&end.Seq, &encoded); err != nil {
			return s, err
		}
		if err := json.Unmarshal(encoded, &end.State); err != nil {
			return s, err
		}
		s.Ends = append(s.Ends, end)
	}
	return s, rows.Err()
}

// Check returns an error if a conversation with this number of messages can't have these
// branches.
func (s Stored) Check(messages int64) error {
	if s.Tip < 0 || s.Tip > 0 && s.Tip >= messages {
		return fmt.Errorf("a chosen branch that ends with message %d", s.Tip)
	}
	last := int64(1)
	for _, start := range s.Starts {
		if start.Seq <= last || start.Seq > messages || start.Parent < 0 || start.Parent >= start.Seq-1 {
			return fmt.Errorf("a branch that begins with message %d and follows message %d", start.Seq, start.Parent)
		}
		last = start.Seq
	}
	last = 0
	for _, end := range s.Ends {
		if end.Seq <= last || end.Seq > messages {
			return fmt.Errorf("a branch that ends with message %d", end.Seq)
		}
		last = end.Seq
	}
	return nil
}

// Store stores the branches for a conversation that has none.
func (s Stored) Store(ctx context.Context, tx db.Tx, conversation int64) error {
	if _, err := tx.ExecContext(ctx, `UPDATE conversations SET tip = ? WHERE id = ?`, s.Tip, conversation); err != nil {
		return err
	}
	for _, start := range s.Starts {
		_, err := tx.ExecContext(ctx, `INSERT INTO branches (conversation_id, seq, parent) VALUES (?, ?, ?)`, conversation, start.Seq, start.Parent)
		if err != nil {
			return err
		}
	}
	for _, end := range s.Ends {
		encoded, err := json.Marshal(end.State)
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO branch_states (conversation_id, tip, state) VALUES (?, ?, ?)`, conversation, end.Seq, string(encoded))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
