package retention

import (
	"context"

	"parley/conversation/internal/db"
	"parley/conversation/internal/rows"
)

// hideBatch is how many conversations are marked as deleted in one
// transaction. Chores remove their rows later.
const hideBatch = 100

// outdated is the condition that a conversation c is no longer kept: it was last used before
// ?1, and it is archived or was last used before ?2, so that it is expired. A conversation
// that was used while the machine's clock was behind seems older than it is. So it is kept if
// one of its newest messages has a date since ?1, as dates may come from the platform. Dates
// after ?3, the present, do not count.
const outdated = `c.deleted = 0 AND c.updated_at < ?1 AND (c.active = 0 OR c.updated_at < ?2)
	AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = c.id AND m.seq > c.messages - 10 AND m.created_at BETWEEN ?1 AND ?3)`

// conversations deletes or counts outdated conversations. It goes through all conversations in
// the order of their rows, since an index by last use would cost every message a page on disk.
func (c *cleaner) conversations(ctx context.Context) error {
	for after := int64(0); ; {
		batch, last, err := c.nextOutdated(ctx, after)
		if err != nil || last == 0 {
			return err
		}
		after = last
		if c.deletes {
			if batch, err = c.hideReadable(ctx, batch); err != nil {
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

// nextOutdated returns the next outdated conversations after a row, and the row after which to
// continue, 0 if there are no more. A conversation that is damaged and can't be read is
// kept.
func (c *cleaner) nextOutdated(ctx context.Context, after int64) (batch []Outdated, last int64, err error) {
	batch, err = c.outdatedAfter(ctx, after)
	if !db.IsDamaged(err) {
		if len(batch) > 0 {
			last = batch[len(batch)-1].row
		}
		return batch, last, err
	}
	ids, err := db.ReadableIDs(ctx, c.db, "conversations", after, hideBatch)
	if err != nil || len(ids) == 0 {
		return nil, 0, err
	}
	batch = nil
	for _, id := range ids {
		one, err := c.outdatedWhere(ctx, `c.id = ?4`, id, 1)
		if err != nil && !db.IsDamaged(err) {
			return nil, 0, err
		}
		if err == nil {
			batch = append(batch, one...)
		}
	}
	return batch, ids[len(ids)-1], nil
}

func (c *cleaner) outdatedAfter(ctx context.Context, row int64) ([]Outdated, error) {
	return c.outdatedWhere(ctx, `c.id > ?4`, row, hideBatch)
}

func (c *cleaner) outdatedWhere(ctx context.Context, condition string, row int64, n int) ([]Outdated, error) {
	rows, err := c.db.QueryContext(ctx, `
		SELECT c.id, s.key, c.uuid, c.title, c.active, c.messages, c.tokens, c.created_at, c.updated_at, (
			SELECT coalesce(sum(`+rows.MessageBytes+`), 0)
			FROM messages WHERE conversation_id = c.id)
		FROM conversations c JOIN sessions s ON s.id = c.session_id
		WHERE `+outdated+` AND `+condition+` ORDER BY c.id LIMIT ?5`, c.unusedSince, c.expiredBefore, db.Millis(c.at), row, n)
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
		o.CreatedAt, o.UpdatedAt = db.FromMillis(created), db.FromMillis(updated)
		batch = append(batch, o)
	}
	return batch, rows.Err()
}

// hideReadable does the same as hide, but skips conversations that can't be marked because they are damaged.
func (c *cleaner) hideReadable(ctx context.Context, batch []Outdated) (hidden []Outdated, err error) {
	hidden, err = c.hide(ctx, batch)
	if !db.IsDamaged(err) {
		return hidden, err
	}
	hidden = nil
	for i := range batch {
		one, err := c.hide(ctx, batch[i:i+1])
		if err != nil && !db.IsDamaged(err) {
			return hidden, err
		}
		if err == nil {
			hidden = append(hidden, one...)
		}
	}
	return hidden, nil
}

// clearEmptySession deletes the metadata and the pin of the session of a conversation ?1, so that
// lists do not show it, unless the session has another conversation or a waiting message.
const clearEmptySession = `
	UPDATE sessions AS s SET metadata = NULL, pinned = 0 WHERE id = (SELECT session_id FROM conversations WHERE id = ?1)
		AND NOT EXISTS (SELECT 1 FROM conversations c WHERE c.session_id = s.id AND c.deleted = 0 AND c.messages > 0)
		AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.session_id = s.id AND i.run_id IS NULL AND i.note = 0)`

// hide marks conversations as deleted and returns those that it has marked. It skips conversations that have been used again
// since they were read.
func (c *cleaner) hide(ctx context.Context, batch []Outdated) (hidden []Outdated, err error) {
	err = c.db.Write(ctx, func(ctx context.Context, tx db.Tx) error {
		hidden = make([]Outdated, 0, len(batch))
		for _, o := range batch {
			if err := rows.LockConversation(ctx, tx, o.row); err != nil {
				return err
			}
			var still bool
			err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM conversations c WHERE `+outdated+` AND c.id = ?4)`,
				c.unusedSince, c.expiredBefore, db.Millis(c.at), o.row).Scan(&still)
			if err != nil {
				return err
			}
			if !still {
				continue
			}
			if err := rows.DeleteConversation(ctx, tx, o.row); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, clearEmptySession, o.row); err != nil {
				return err
			}
			hidden = append(hidden, o)
		}
		return nil
	})
	return hidden, err
}
