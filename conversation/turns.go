package conversation

import (
	"context"
	"database/sql"
	"errors"

	"parley/conversation/internal/db"
)

// A turn is an exchange of a conversation by its number, from 1. An answer that
// is replaced changes no number, and neither does an internal message; only an
// exchange that is taken back frees its own for the next.

// countEvery is the distance, in messages, of those for which the number of
// exchanges up to them is kept.
const countEvery = 16

// startsAfter are the user messages that begin an exchange, after the seq ?2 of
// the conversation ?1.
const startsAfter = `
	FROM messages m WHERE conversation_id = ?1 AND seq > ?2 AND role = 'user' AND state <> 'undone' AND internal = 0 AND 'user' IS NOT (
		SELECT role FROM messages WHERE conversation_id = m.conversation_id AND seq < m.seq AND ` + inTalk + ` ORDER BY seq DESC LIMIT 1)`

// turnOf is the number of the exchange that a message is in.
func turnOf(ctx context.Context, q db.Querier, conversation, seq int64) (turn int64, err error) {
	from, before, err := nearestCount(ctx, q, conversation, `seq <= ?2`, seq)
	if err != nil {
		return 0, err
	}
	err = q.QueryRowContext(ctx, `SELECT count(*) `+startsAfter+` AND seq <= ?3`, conversation, from, seq).Scan(&turn)
	return before + turn, err
}

// exchanges is how many a conversation has, and whether the last one lacks its
// answer.
func exchanges(ctx context.Context, q db.Querier, c Conversation) (n int64, asked bool, err error) {
	if n, err = turnOf(ctx, q, c.row, c.Messages); err != nil {
		return 0, false, err
	}
	err = q.QueryRowContext(ctx, `
		SELECT coalesce((SELECT role = 'user' FROM messages WHERE conversation_id = ? AND `+inTalk+` ORDER BY seq DESC LIMIT 1), 0)`,
		c.row).Scan(&asked)
	return n, asked, err
}

// startsFrom gives the first messages of up to n exchanges, from the number turn
// on.
func startsFrom(ctx context.Context, q db.Querier, conversation, turn, n int64) (seqs []int64, err error) {
	from, before, err := nearestCount(ctx, q, conversation, `exchanges < ?2`, turn)
	if err != nil {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, `SELECT seq `+startsAfter+` ORDER BY seq LIMIT ?3 OFFSET ?4`, conversation, from, n, turn-before-1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, rows.Err()
}

// nearestCount is the last count that was kept for which the condition holds.
func nearestCount(ctx context.Context, q db.Querier, conversation int64, condition string, value int64) (seq, exchanges int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT seq, exchanges FROM exchange_counts
		WHERE conversation_id = ?1 AND `+condition+` ORDER BY seq DESC LIMIT 1`, conversation, value).Scan(&seq, &exchanges)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil
	}
	return seq, exchanges, err
}

// countExchanges keeps the number of exchanges up to a message.
func countExchanges(ctx context.Context, tx *sql.Tx, conversation, seq int64) error {
	exchanges, err := turnOf(ctx, tx, conversation, seq)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO exchange_counts (conversation_id, seq, exchanges) VALUES (?, ?, ?)
		ON CONFLICT (conversation_id, seq) DO UPDATE SET exchanges = excluded.exchanges`, conversation, seq, exchanges)
	return err
}
