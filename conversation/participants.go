package conversation

import (
	"context"
	"database/sql"

	"parley/conversation/internal/db"
)

// Who has written in a conversation is kept beside it: of a message in a
// private chat the author is not stored, and inbound is kept for a week only.

// addParticipants notes whose messages a run has answered.
func addParticipants(ctx context.Context, tx *sql.Tx, run Run, conversation int64) error {
	if run.Kind != KindAgent || conversation == 0 {
		return nil
	}
	var last Sender
	for _, in := range run.Took {
		if in.Sender.ID == "" || in.Sender == last {
			continue
		}
		last = in.Sender
		_, err := tx.ExecContext(ctx, `
			INSERT INTO participants (conversation_id, user_id, name) VALUES (?, ?, ?)
			ON CONFLICT (conversation_id, user_id) DO UPDATE SET name = excluded.name WHERE name <> excluded.name`,
			conversation, last.ID, db.Text(last.Name))
		if err != nil {
			return err
		}
	}
	return nil
}

// Participants are those who have written in a conversation, by the platform's
// ids, in the order of their names.
func (s *Store) Participants(ctx context.Context, conversation string) ([]Sender, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT p.user_id, p.name FROM participants p JOIN conversations c ON c.id = p.conversation_id
		WHERE c.uuid = ? AND c.deleted = 0 ORDER BY p.name, p.user_id`, conversation)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Sender
	for rows.Next() {
		var p Sender
		if err := rows.Scan(&p.ID, &p.Name); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, db.Explain(rows.Err())
}
