package conversation

import (
	"context"
	"slices"

	"parley/conversation/internal/db"
)

// MessagesOf gives what runs of a conversation have added to it, by the runs'
// ids and oldest first; about 1 MiB of text in all, the newest of it. It walks
// back from the tail until it has them, so that the newest runs cost the least.
func (s *Store) MessagesOf(ctx context.Context, conversation string, runs []TracedRun) (map[int64][]Record, error) {
	found := map[int64][]Record{}
	if len(runs) == 0 {
		return found, nil
	}
	ids, added := make([]int64, len(runs)), int64(0)
	for i, run := range runs {
		ids[i], added = run.ID, added+run.Messages
	}
	rows, err := s.db.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = (SELECT id FROM conversations WHERE uuid = ? AND deleted = 0)
			AND run_id IN (SELECT value FROM json_each(?)) ORDER BY seq DESC LIMIT ?`, conversation, db.IDs(ids), added)
	if err != nil {
		return nil, db.Explain(err)
	}
	defer rows.Close()
	for size := 0; rows.Next() && size < recordsBytes; {
		r, err := scanRecord(rows)
		if err != nil {
			return nil, err
		}
		size += len(r.Content)
		found[r.RunID] = append(found[r.RunID], r)
	}
	for _, list := range found {
		slices.Reverse(list)
	}
	return found, db.Explain(rows.Err())
}
