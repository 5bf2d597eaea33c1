// Package branches lists the versions of messages that were edited or answered anew, and
// chooses among them. The model is shown the chosen branch alone.
package branches

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"parley/conversation"
	"parley/conversation/internal/branching"
	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
	"parley/conversation/internal/turns"
	"parley/conversation/state"
)

// Branches are those of the conversations of a store.
type Branches struct{ db *db.DB }

// New returns the branches of a store.
func New(store *conversation.Store) *Branches { return &Branches{store.DB()} }

// Fork is a place where a conversation branches.
type Fork = branching.Fork

// Forks returns the forks on the chosen branch of a conversation, none for one without a row.
func (b *Branches) Forks(ctx context.Context, c conversation.Conversation) (list []Fork, err error) {
	if c.Row() == 0 {
		return nil, nil
	}
	tree, err := branching.Read(ctx, b.db, c.Row())
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, db.Explain(err)
	}
	for _, fork := range tree.Forks() {
		var shown []int64
		for _, version := range fork.Versions {
			is, err := tree.IsShown(ctx, b.db, c.Row(), version)
			if err != nil {
				return nil, db.Explain(err)
			}
			if is {
				shown = append(shown, version)
			}
		}
		if chosen := slices.Index(shown, fork.Versions[fork.Chosen]); chosen >= 0 && len(shown) > 1 {
			list = append(list, Fork{Versions: shown, Chosen: chosen})
		}
	}
	return list, nil
}

// Choose makes the branch that begins with a version of a message the chosen one, up to
// the newest message that follows it. The error is conversation.ErrNotFound for a message
// that is no version. The caller holds the session's lock.
func (b *Branches) Choose(ctx context.Context, c conversation.Conversation, version int64) error {
	return b.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		if err := rows.LockConversation(ctx, tx, c.Row()); err != nil {
			return err
		}
		tree, err := branching.Read(ctx, tx, c.Row())
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(tree.Forks(), func(f Fork) bool { return slices.Contains(f.Versions, version) }) {
			return fmt.Errorf("%w: message %d of %s is not one of several versions", conversation.ErrNotFound, version, c.ID)
		}
		parent, tip := tree.Parent(version), tree.Latest(version)
		if err := tree.Leave(ctx, tx, c.Row()); err != nil {
			return err
		}
		if _, err := branching.SetAside(ctx, tx, c.Row(), parent, false); err != nil {
			return err
		}
		if err := branching.Restore(ctx, tx, c.Row(), parent, tree.Path(tip)); err != nil {
			return err
		}
		return b.store(ctx, tx, c.Row(), tip, tree.Newest())
	})
}

// store stores the tip of the branch that was chosen, and the state that belongs to it. The
// window is chosen anew.
func (b *Branches) store(ctx context.Context, tx db.Tx, row, tip, newest int64) error {
	var now, then []byte
	err := tx.QueryRowContext(ctx, `
		SELECT coalesce(c.state, '{}'), coalesce(b.state, c.state, '{}') FROM conversations c LEFT JOIN branch_states b ON b.conversation_id = c.id AND b.tip = ?
		WHERE c.id = ?`, tip, row).Scan(&now, &then)
	if err != nil {
		return err
	}
	var present, chosen state.State
	if err := errors.Join(json.Unmarshal(now, &present), json.Unmarshal(then, &chosen)); err != nil {
		return err
	}
	chosen.Instructions = present.Instructions // they are the session's
	if chosen.Turns, err = turns.Of(ctx, tx, row, newest); err != nil {
		return err
	}
	if chosen.Asked, err = turns.Unanswered(ctx, tx, row); err != nil {
		return err
	}
	encoded, err := json.Marshal(chosen)
	if err != nil {
		return err
	}
	if tip == newest {
		tip = 0
	}
	_, err = tx.ExecContext(ctx, `UPDATE conversations SET tip = ?, state = ?, window_start = 0, window_cut = 0, window_budget = 0, window_named = 0 WHERE id = ?`, tip, string(encoded), row)
	return err
}
