// Package turns counts the turns of a conversation, without reading it from its beginning.
//
// A turn begins with a user message that does not follow another user message. Turns are numbered from 1. Only messages
// that are visible count, so a turn that is taken back frees its number for the next one.
package turns

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"parley/conversation/internal/db"
)

// Visible is the condition that a row of messages is visible to people and to the model: neither replaced nor taken back nor
// internal.
const Visible = `messages.state NOT IN ('replaced', 'undone') AND messages.internal = 0`

// VisibleOf is Visible for a statement in which the table messages has another name.
func VisibleOf(name string) string { return strings.ReplaceAll(Visible, "messages.", name+".") }

// storedEvery is the distance between the seqs for which the number of turns up to them is stored.
const storedEvery = 16

// startsAfter selects the user messages of the conversation ?1 that begin a turn, after a seq.
func startsAfter(seq string) string {
	return `
	FROM messages m WHERE conversation_id = ?1 AND seq > ` + seq + ` AND role = 'user' AND state NOT IN ('replaced', 'undone') AND internal = 0 AND 'user' IS DISTINCT FROM (
		SELECT role FROM messages WHERE conversation_id = m.conversation_id AND seq < m.seq AND ` + Visible + ` ORDER BY seq DESC LIMIT 1)`
}

// Of returns the number of the turn that a message is in. For the last message, that is the number of turns.
func Of(ctx context.Context, q db.Querier, conversation, seq int64) (turn int64, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT coalesce(stored.exchanges, 0) + (SELECT count(*) `+startsAfter(`coalesce(stored.seq, 0)`)+` AND seq <= ?2)
		FROM (SELECT 1 AS n) AS one LEFT JOIN (
			SELECT seq, exchanges FROM exchange_counts WHERE conversation_id = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1) AS stored ON true`,
		conversation, seq).Scan(&turn)
	return turn, err
}

// Unanswered reports whether the last visible message of a conversation is a user message.
func Unanswered(ctx context.Context, q db.Querier, conversation int64) (unanswered bool, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT coalesce((SELECT role = 'user' FROM messages WHERE conversation_id = ? AND `+Visible+` ORDER BY seq DESC LIMIT 1), false)`,
		conversation).Scan(&unanswered)
	return unanswered, err
}

// Starts returns the seqs of the first messages of up to n turns, beginning with the number turn.
func Starts(ctx context.Context, q db.Querier, conversation, turn, n int64) (seqs []int64, err error) {
	from, before, err := nearest(ctx, q, conversation, turn)
	if err != nil {
		return nil, err
	}
	return db.Column[int64](q.QueryContext(ctx, `SELECT seq `+startsAfter(`?2`)+` ORDER BY seq LIMIT ?3 OFFSET ?4`, conversation, from, n, turn-before-1))
}

// nearest returns the last stored number of turns that is less than a turn's number, and the seq for which it is stored.
// Both are 0 if there is none.
func nearest(ctx context.Context, q db.Querier, conversation, turn int64) (seq, count int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT seq, exchanges FROM exchange_counts
		WHERE conversation_id = ? AND exchanges < ? ORDER BY seq DESC LIMIT 1`, conversation, turn).Scan(&seq, &count)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil
	}
	return seq, count, err
}

// Store stores the number of turns up to a message, if it is stored for the message's seq. Call it for all messages in their
// order.
func Store(ctx context.Context, tx db.Tx, conversation, seq int64) error {
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
