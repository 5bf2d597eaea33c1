package conversation

import (
	"context"
	"database/sql"
	"time"

	"parley/conversation/internal/db"
)

// Notice is a kept reply that no message of a conversation holds: of a command,
// or of a run that failed or was stopped before it had written anything.
type Notice struct {
	ID           int64 // grows with each reply
	RunID        int64
	Kind         Kind
	Status       Status
	Conversation string // ID, "" where there was none
	After        int64  // seq of the message that it stands behind, 0 for the beginning
	Asked        string // the command as it was written; "" where messages hold what was asked
	Text         string // markdown
	Actions      []Action
	Transcript   *Transcript
	At           time.Time
}

// Notices gives those of a session that follow on the notice with the ID after,
// at most limit, in order.
func (s *Store) Notices(ctx context.Context, key Key, after int64, limit int) ([]Notice, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT o.id, o.run_id, r.kind, r.status, coalesce(c.uuid, ''), o.through, coalesce(i.text, ''), o.text, o.actions, o.transcript, o.created_at
		FROM outbox o JOIN runs r ON r.id = o.run_id
			LEFT JOIN conversations c ON c.id = r.conversation_id AND c.deleted = 0
			LEFT JOIN inbox i ON i.id = o.run_id
		WHERE o.notice = 1 AND o.session_id = (SELECT id FROM sessions WHERE key = ?) AND o.id > ?
			AND o.text <> '' AND (r.conversation_id IS NULL OR c.id IS NOT NULL)
		ORDER BY o.id LIMIT ?`, string(key), after, limit)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	var list []Notice
	for rows.Next() {
		n, err := scanNotice(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, db.Explain(rows.Err())
}

func scanNotice(rows *sql.Rows) (n Notice, err error) {
	var actions, transcript []byte
	var at int64
	err = rows.Scan(&n.ID, &n.RunID, &n.Kind, &n.Status, &n.Conversation, &n.After, &n.Asked, &n.Text, &actions, &transcript, &at)
	if err != nil {
		return n, err
	}
	n.At = db.FromMillis(at)
	return n, unmarshalReply(actions, transcript, &n.Actions, &n.Transcript)
}
