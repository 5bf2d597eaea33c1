package conversation

import (
	"context"
	"database/sql"
)

// hideBatch is how many conversations are put down for deletion in one
// transaction; their rows are swept away later.
const hideBatch = 100

// outdated are the conversations that are no longer kept: not used since ?1,
// and archived or, last used before ?2, over without it. One that was used while
// the machine's clock was behind seems older than it is; then its newest messages
// tell, to which platforms give dates of their own. Dates in the future tell nothing.
const outdated = `c.deleted = 0 AND c.updated_at < ?1 AND (c.active = 0 OR c.updated_at < ?2)
	AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = c.id AND m.seq > c.messages - 10 AND m.created_at BETWEEN ?1 AND ?3)`

// conversations walks through all of them in the order of their rows: an index
// by last use would cost every message a page on disk.
func (c *cleaner) conversations(ctx context.Context) error {
	for after := int64(0); ; {
		batch, err := c.outdatedAfter(ctx, after)
		if err != nil || len(batch) == 0 {
			return err
		}
		after = batch[len(batch)-1].row
		if c.deletes {
			if batch, err = c.hide(ctx, batch); err != nil {
				return err
			}
		}
		for _, o := range batch {
			c.cleaned.Conversations++
			c.cleaned.Messages += o.Messages
			c.cleaned.Bytes += o.Bytes
			c.each(o)
		}
		if err := c.pause(ctx); err != nil {
			return err
		}
	}
}

func (c *cleaner) outdatedAfter(ctx context.Context, row int64) ([]Outdated, error) {
	rows, err := c.readers.QueryContext(ctx, `
		SELECT c.id, s.key, c.uuid, c.title, c.active, c.messages, c.tokens, c.created_at, c.updated_at, (
			SELECT coalesce(sum(`+messageBytes+`), 0)
			FROM messages WHERE conversation_id = c.id)
		FROM conversations c JOIN sessions s ON s.id = c.session_id
		WHERE `+outdated+` AND c.id > ?4 ORDER BY c.id LIMIT ?5`, c.lastUsed, c.restingFrom, millis(c.at), row, hideBatch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var batch []Outdated
	for rows.Next() {
		var o Outdated
		var created, updated int64
		err := rows.Scan(&o.row, &o.Key, &o.ID, &o.Title, &o.Active, &o.Messages, &o.Tokens, &created, &updated, &o.Bytes)
		if err != nil {
			return nil, err
		}
		o.CreatedAt, o.UpdatedAt = fromMillis(created), fromMillis(updated)
		batch = append(batch, o)
	}
	return batch, rows.Err()
}

// hide puts conversations down for deletion, and gives those that it did: one
// may have been used again since it was read.
func (c *cleaner) hide(ctx context.Context, batch []Outdated) (hidden []Outdated, err error) {
	err = c.writer.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		hidden = make([]Outdated, 0, len(batch))
		for _, o := range batch {
			var still bool
			err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM conversations c WHERE `+outdated+` AND c.id = ?4)`,
				c.lastUsed, c.restingFrom, millis(c.at), o.row).Scan(&still)
			if err != nil {
				return err
			}
			if !still {
				continue
			}
			if err := deleteConversation(ctx, tx, o.row); err != nil {
				return err
			}
			hidden = append(hidden, o)
		}
		return nil
	})
	return hidden, err
}
