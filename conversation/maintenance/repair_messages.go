package maintenance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"
)

// lostText is the text of the message that replaces a lost one. It is internal: no
// model is shown it, and neither is the chat.
const lostText = "This message could not be read when the database was repaired."

// mendMessages inserts an internal message for each lost one. It makes tool calls without
// results, and results without calls, internal, because the servers of models refuse them.
func (r *repair) mendMessages(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(r.tally.conversations)) {
		c := r.tally.conversations[id]
		missing := c.missing(Loss{})
		if len(missing) == 0 || c.deleted != 0 {
			continue
		}
		for _, l := range missing {
			for seq := l.First; seq <= l.Last; seq++ {
				if err := r.exec(ctx, `
					INSERT OR IGNORE INTO messages (conversation_id, seq, run_id, role, content, internal, tokens, created_at)
					VALUES (?, ?, 0, 'system', ?, 1, 0, ?)`, id, seq, lostText, cmp.Or(l.After, l.Before, time.Now().UnixMilli())); err != nil {
					return err
				}
			}
		}
		if err := r.mendCalls(ctx, id); err != nil {
			return err
		}
		if err := r.count(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// mendCalls makes messages with a lone tool call or result internal.
func (r *repair) mendCalls(ctx context.Context, conversation int64) error {
	rows, err := r.tx.QueryContext(ctx, `
		SELECT seq, role, coalesce(tool_calls, ''), coalesce(tool_call_id, '') FROM messages
		WHERE conversation_id = ? AND state NOT IN ('replaced', 'undone') AND (internal = 0 OR run_id = 0 AND role = 'system') ORDER BY seq`, conversation)
	if err != nil {
		return err
	}
	defer rows.Close()
	var alone []int64
	var group []int64         // the message with the calls, and the results so far
	open := map[string]bool{} // calls without a result so far
	end := func() {
		if len(open) > 0 {
			alone = append(alone, group...)
		}
		group, open = nil, map[string]bool{}
	}
	for rows.Next() {
		var seq int64
		var role, calls, answers string
		if err := rows.Scan(&seq, &role, &calls, &answers); err != nil {
			return err
		}
		switch {
		case role == "tool" && open[answers]:
			group = append(group, seq)
			delete(open, answers)
		case role == "tool":
			alone = append(alone, seq)
		default:
			end()
			for _, id := range callIDs(calls) {
				group, open[id] = []int64{seq}, true
			}
		}
	}
	end()
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, seq := range alone {
		if err := r.exec(ctx, `UPDATE messages SET internal = 1 WHERE conversation_id = ? AND seq = ?`, conversation, seq); err != nil {
			return err
		}
	}
	return nil
}

// callIDs returns the ids of the tool calls that a message holds.
func callIDs(text string) (ids []string) {
	var calls []struct {
		ID string `json:"id"`
	}
	if json.Unmarshal([]byte(text), &calls) != nil {
		return nil
	}
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return ids
}

// mendBranches makes the chosen branch of a conversation end with its last message that is not set
// aside, if the stored end does not exist.
func (r *repair) mendBranches(ctx context.Context) error {
	for _, statement := range []string{
		`UPDATE conversations AS c SET tip = coalesce((SELECT max(seq) FROM messages WHERE conversation_id = c.id AND set_aside IS NULL), 0)
			WHERE c.deleted = 0 AND ` + wrongTip,
		`UPDATE conversations SET tip = 0 WHERE tip = messages`,
	} {
		if err := r.exec(ctx, statement); err != nil && !isOlder(err) {
			return err
		}
	}
	return nil
}
