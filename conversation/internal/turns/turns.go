// Package turns counts the turns of a conversation, without reading it from its beginning.
//
// A turn begins with a user message that does not follow on another one. Turns are numbered from 1. An answer that is
// replaced changes no number, and neither does an internal message; only a turn that is taken back frees its number for
// the next one.
package turns

import (
	"context"
	"database/sql"
	"errors"

	"parley/conversation/internal/db"
)

// InTalk is the condition on a row of messages that it is part of the talk, as people read it and as the model is shown
// it: neither replaced nor taken back nor internal.
const InTalk = `messages.state NOT IN ('replaced', 'undone') AND messages.internal = 0`

// storedEvery is the distance between messages for which the number of turns up to them is stored.
const storedEvery = 16

// starts are the user messages that begin a turn, after the seq ?2 of the conversation ?1.
const starts = `
	FROM messages m WHERE conversation_id = ?1 AND seq > ?2 AND role = 'user' AND state <> 'undone' AND internal = 0 AND 'user' IS NOT (
		SELECT role FROM messages WHERE conversation_id = m.conversation_id AND seq < m.seq AND ` + InTalk + ` ORDER BY seq DESC LIMIT 1)`

// Of returns the number of the turn that a message is in; of the last message it is how many turns there are.
func Of(ctx context.Context, q db.Querier, conversation, seq int64) (turn int64, err error) {
	from, before, err := nearest(ctx, q, conversation, `seq <= ?2`, seq)
	if err != nil {
		return 0, err
	}
	err = q.QueryRowContext(ctx, `SELECT count(*) `+starts+` AND seq <= ?3`, conversation, from, seq).Scan(&turn)
	return before + turn, err
}

// Unanswered reports whether the last message of a conversation is a user's.
func Unanswered(ctx context.Context, q db.Querier, conversation int64) (unanswered bool, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT coalesce((SELECT role = 'user' FROM messages WHERE conversation_id = ? AND `+InTalk+` ORDER BY seq DESC LIMIT 1), 0)`,
		conversation).Scan(&unanswered)
	return unanswered, err
}

// Starts returns the first messages of up to n turns, from the number turn on.
func Starts(ctx context.Context, q db.Querier, conversation, turn, n int64) (seqs []int64, err error) {
	from, before, err := nearest(ctx, q, conversation, `exchanges < ?2`, turn)
	if err != nil {
		return nil, err
	}
	return db.Column[int64](q.QueryContext(ctx, `SELECT seq `+starts+` ORDER BY seq LIMIT ?3 OFFSET ?4`, conversation, from, n, turn-before-1))
}

// nearest returns the last stored count for which a condition holds, and the message that it counts up to.
func nearest(ctx context.Context, q db.Querier, conversation int64, condition string, value int64) (seq, count int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT seq, exchanges FROM exchange_counts
		WHERE conversation_id = ?1 AND `+condition+` ORDER BY seq DESC LIMIT 1`, conversation, value).Scan(&seq, &count)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil
	}
	return seq, count, err
}

// Store stores the number of turns up to a message if the message is one of those for which it is stored. It is called
// for each message once, in their order.
func Store(ctx context.Context, tx *sql.Tx, conversation, seq int64) error {
	if seq%storedEvery != 0 {
		return nil
	}
	count, err := Of(ctx, tx, conversation, seq)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO exchange_counts (conversation_id, seq, exchanges) VALUES (?, ?, ?)
		ON CONFLICT (conversation_id, seq) DO UPDATE SET exchanges = excluded.exchanges`, conversation, seq, count)
	return err
}
