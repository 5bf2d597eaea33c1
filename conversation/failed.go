package conversation

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"parley/conversation/internal/db"
)

// FailedDelivery is a reply that the platform has refused for good. It is kept
// like all that has ended, for a week.
type FailedDelivery struct {
	Delivery
	RunID        int64
	Conversation string // ID, "" where there is none
	Title        string // of the conversation
	Again        bool   // it can be sent again: its words are not deleted
}

// FailedDeliveries lists them over all sessions, the newest first, leaving out
// the skip first ones.
func (s *Store) FailedDeliveries(ctx context.Context, skip, limit int) ([]FailedDelivery, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+deliveryColumns+`, o.run_id, coalesce(c.uuid, ''), coalesce(c.title, ''), `+sendable+`
		FROM outbox o JOIN sessions s ON s.id = o.session_id JOIN runs r ON r.id = o.run_id
			LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
		WHERE o.state = 'failed' ORDER BY o.id DESC LIMIT ? OFFSET ?`, limit, skip)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []FailedDelivery
	for rows.Next() {
		f, err := scanFailed(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, db.Explain(rows.Err())
}

// sendable is the condition that the words of a failed delivery are not deleted,
// nor about to be.
const sendable = `(o.text <> '' AND (r.conversation_id IS NULL OR c.id IS NOT NULL))`

func scanFailed(rows *sql.Rows) (f FailedDelivery, err error) {
	f.Delivery, err = scanDelivery(rows, &f.RunID, &f.Conversation, &f.Title, &f.Again)
	if !f.Again {
		f.Text, f.Actions, f.Transcript = "", nil, nil
	}
	return f, err
}

// Redeliver makes a failed delivery due again and gives it as it is then; its
// sender is told to look into the store. The parts that the platform took are
// not sent again. ErrNotFailed when it was sent again already, or its words are
// deleted.
func (s *Store) Redeliver(ctx context.Context, id int64) (again Delivery, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		again, err = redeliver(ctx, tx, id)
		if err != nil {
			return fmt.Errorf("send delivery %d again: %w", id, err)
		}
		return nil
	})
	return again, err
}

// ErrNotFailed says that there is no failed delivery that could be sent again.
var ErrNotFailed = errors.New("there is no such failed delivery, or its words are deleted")

func redeliver(ctx context.Context, tx *sql.Tx, id int64) (d Delivery, err error) {
	result, err := tx.ExecContext(ctx, `
		UPDATE outbox SET state = 'due', attempts = 0, error = '', held_at = NULL
		WHERE state = 'failed' AND id = (
			SELECT o.id FROM outbox o JOIN runs r ON r.id = o.run_id LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
			WHERE o.id = ? AND `+sendable+`)`, id)
	if err != nil {
		return d, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return d, cmp.Or(err, ErrNotFailed)
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+deliveryColumns+` FROM outbox o WHERE o.id = ?`, id)
	if err != nil {
		return d, err
	}
	defer rows.Close()
	if !rows.Next() {
		return d, errors.Join(rows.Err(), ErrNotFailed)
	}
	return scanDelivery(rows)
}
