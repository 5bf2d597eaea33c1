// Package branching keeps the branches of a conversation. A conversation branches where an
// earlier message is edited or answered anew: the messages that followed it are set aside, and
// stay in the archive. A message that is set aside has the state 'replaced'; the column set_aside
// keeps the state that it has on its own branch.
//
// A message follows the message with the seq before its own, unless the table branches names
// another one. So the messages of a conversation form a tree, and seqs ascend on each path from
// its beginning.
package branching

import (
	"context"
	"slices"

	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
)

// Tree describes how the messages of a conversation follow each other. In this package, messages
// are given by their seqs.
type Tree struct {
	starts []Start // in the order of Seq
	newest int64   // the newest message
	tip    int64   // the last message of the chosen branch
}

// Start is the first message of a branch, and its parent: the message that it follows, 0 for
// none.
type Start struct{ Seq, Parent int64 }

// Span is a range of messages, both ends included.
type Span struct{ From, Through int64 }

// Read reads the tree of a conversation, which is given by the id of its row.
func Read(ctx context.Context, q db.Querier, conversation int64) (t Tree, err error) {
	err = q.QueryRowContext(ctx, `SELECT messages, CASE WHEN tip > 0 THEN tip ELSE messages END FROM conversations WHERE id = ?`, conversation).Scan(&t.newest, &t.tip)
	if err != nil {
		return t, err
	}
	t.starts = []Start{{1, 0}}
	rows, err := q.QueryContext(ctx, `SELECT seq, parent FROM branches WHERE conversation_id = ? ORDER BY seq`, conversation)
	if err != nil {
		return t, err
	}
	defer rows.Close()
	for rows.Next() {
		var s Start
		if err := rows.Scan(&s.Seq, &s.Parent); err != nil {
			return t, err
		}
		if s.Parent >= 0 && s.Parent < s.Seq { // otherwise the row is damaged, and ignored
			t.starts = append(t.starts, s)
		}
	}
	return t, rows.Err()
}

// Newest returns the newest message of all branches.
func (t Tree) Newest() int64 { return t.newest }

// begin returns the last start up to a message: from there to the message, each message follows
// the one before it.
func (t Tree) begin(seq int64) Start {
	i, _ := slices.BinarySearchFunc(t.starts, seq+1, func(s Start, seq int64) int { return int(s.Seq - seq) })
	return t.starts[max(i-1, 0)]
}

// Parent returns the message that a message follows, 0 for none.
func (t Tree) Parent(seq int64) int64 {
	if s := t.begin(seq); s.Seq == seq {
		return s.Parent
	}
	return seq - 1
}

// Path returns the messages from the beginning of the conversation to a tip, in order.
func (t Tree) Path(tip int64) (path []Span) {
	for tip > 0 {
		s := t.begin(tip)
		path = append(path, Span{s.Seq, tip})
		tip = s.Parent
	}
	slices.Reverse(path)
	return path
}

// on reports whether a message is on a path.
func on(path []Span, seq int64) bool {
	return slices.ContainsFunc(path, func(s Span) bool { return s.From <= seq && seq <= s.Through })
}

// versions returns the messages whose parent is a message, in the order in which they were
// written. Each begins a branch.
func (t Tree) versions(parent int64) (list []int64) {
	if next := parent + 1; next <= t.newest && t.Parent(next) == parent {
		list = append(list, next)
	}
	for _, s := range t.starts {
		if s.Parent == parent && s.Seq != parent+1 {
			list = append(list, s.Seq)
		}
	}
	return list
}

// end returns the last message before the next start after a message.
func (t Tree) end(seq int64) int64 {
	for _, s := range t.starts {
		if s.Seq > seq {
			return s.Seq - 1
		}
	}
	return t.newest
}

// Latest returns the tip of the newest branch that has a message, or the message itself if nothing
// follows it.
func (t Tree) Latest(seq int64) int64 {
	for _, s := range slices.Backward(t.starts) {
		if end := t.end(s.Seq); end >= seq && on(t.Path(end), seq) {
			return end
		}
	}
	return seq
}

// Fork is a place where a conversation branches.
type Fork struct {
	Versions []int64 // the first message of each branch, at least two, in the order in which they were written
	Chosen   int     // the index in Versions of the one on the chosen branch
}

// Forks returns the forks on the chosen branch.
func (t Tree) Forks() (list []Fork) {
	path := t.Path(t.tip)
	var parents []int64
	for _, s := range t.starts[1:] {
		if (s.Parent == 0 || on(path, s.Parent)) && !slices.Contains(parents, s.Parent) {
			parents = append(parents, s.Parent)
		}
	}
	for _, parent := range parents {
		f := Fork{Versions: t.versions(parent)}
		f.Chosen = slices.IndexFunc(f.Versions, func(seq int64) bool { return on(path, seq) })
		if f.Chosen >= 0 && len(f.Versions) > 1 {
			list = append(list, f)
		}
	}
	return list
}

// Begin stores the parent of a new message, and that the message is on the chosen branch.
func Begin(ctx context.Context, tx db.Tx, conversation, seq, parent int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE conversations SET tip = 0 WHERE id = ? AND tip <> 0`, conversation)
	if err != nil || parent == seq-1 {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO branches (conversation_id, seq, parent) VALUES (?, ?, ?)`, conversation, seq, parent)
	return err
}

// Leave stores the session state of a conversation for its chosen branch, before another branch is
// chosen.
func (t Tree) Leave(ctx context.Context, tx db.Tx, conversation int64) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO branch_states (conversation_id, tip, state) SELECT id, ?, coalesce(state, '{}') FROM conversations WHERE id = ?
		ON CONFLICT (conversation_id, tip) DO UPDATE SET state = excluded.state`, t.tip, conversation)
	return err
}

// SetAside marks the messages of the chosen branch after a seq as replaced, and returns their
// number. With answersOnly, it keeps user messages. It deletes summaries that cover later
// messages.
func SetAside(ctx context.Context, tx db.Tx, conversation, after int64, answersOnly bool) (n int64, err error) {
	result, err := tx.ExecContext(ctx, `
		UPDATE messages SET set_aside = state, state = 'replaced' WHERE conversation_id = ? AND seq > ? AND NOT (? AND role = 'user') AND `+turns.Visible,
		conversation, after, answersOnly)
	if err != nil {
		return 0, err
	}
	for _, statement := range []string{
		`DELETE FROM exchange_counts WHERE conversation_id = ? AND seq > ?`,
		`DELETE FROM summaries WHERE conversation_id = ? AND through > ?`,
	} {
		if _, err := tx.ExecContext(ctx, statement, conversation, after); err != nil {
			return 0, err
		}
	}
	return result.RowsAffected()
}

// Restore undoes SetAside for the messages of a path after a seq.
func Restore(ctx context.Context, tx db.Tx, conversation, after int64, path []Span) error {
	for _, span := range path {
		_, err := tx.ExecContext(ctx, `
			UPDATE messages SET state = set_aside, set_aside = NULL WHERE conversation_id = ? AND seq BETWEEN ? AND ? AND set_aside IS NOT NULL`,
			conversation, max(span.From, after+1), span.Through)
		if err != nil {
			return err
		}
	}
	return nil
}

// IsShown reports whether people can read any message of a version when it is chosen.
func (t Tree) IsShown(ctx context.Context, q db.Querier, conversation, version int64) (shown bool, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT 1 FROM messages WHERE conversation_id = ? AND seq BETWEEN ? AND ? AND internal = 0 AND (set_aside IS NOT NULL OR `+turns.Visible+`))`,
		conversation, version, t.end(version)).Scan(&shown)
	return shown, err
}
