package search

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"parley/conversation"
	"parley/conversation/fulltext"
	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
	"parley/conversation/internal/wordindex"
)

// allowed returns the messages at rows of the index, in their order, without those that are not for this search.
func (l *lookup) allowed(ctx context.Context, rowIDs []int64) ([]int64, error) {
	return db.ReadableOf(rowIDs, func(rowIDs []int64) ([]int64, error) { return l.readAllowed(ctx, rowIDs) })
}

func (l *lookup) readAllowed(ctx context.Context, rowIDs []int64) (ids []int64, err error) {
	return db.Column[int64](db.Short(ctx, l.conn, `
		SELECT messages.id
		FROM json_each(?1) j JOIN messages ON conversation_id = j.value >> 24 AND seq = j.value & 0xFFFFFF
			JOIN conversations c ON c.id = conversation_id
		WHERE c.deleted = 0 AND (?2 OR `+turns.InTalk+`) AND NOT (?3 AND role = 'tool')
			AND (?4 = '' OR tool_name IS NOT ?4 AND NOT EXISTS (
				SELECT 1 FROM json_each(CASE WHEN json_valid(tool_calls) THEN tool_calls ELSE '[]' END) t WHERE t.value ->> 'name' = ?4))
		ORDER BY j.key`,
		db.IDs(rowIDs), l.everywhere(), l.query.TalkOnly, l.query.ExceptTool))
}

// searched returns the text of a message that is searched.
func (l *lookup) searched(content, calls string) string {
	if calls == "" || l.query.TalkOnly {
		return content
	}
	return strings.TrimPrefix(content+"\n"+wordindex.CallsText(calls), "\n")
}

// hits reads the messages that were found, as they are shown.
func (l *lookup) hits(ctx context.Context, ids []int64, terms []fulltext.Term) ([]Hit, error) {
	return db.ReadableOf(ids, func(ids []int64) ([]Hit, error) { return l.readHits(ctx, ids, terms) })
}

func (l *lookup) readHits(ctx context.Context, ids []int64, terms []fulltext.Term) ([]Hit, error) {
	rows, err := db.Short(ctx, l.conn, `
		SELECT s.key, c.id, c.uuid, c.title, m.seq, m.role, coalesce(m.tool_name, ''), m.sender, m.created_at, m.content, coalesce(m.tool_calls, '')
		FROM json_each(?) j JOIN messages m ON m.id = j.value
			JOIN conversations c ON c.id = m.conversation_id JOIN sessions s ON s.id = c.session_id
		WHERE c.deleted = 0 ORDER BY j.key`, db.IDs(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var hits []Hit
	var conversations []int64 // row ids
	for rows.Next() {
		h, row, err := l.scanHit(rows, terms)
		if err != nil {
			return nil, err
		}
		hits, conversations = append(hits, h), append(conversations, row)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range hits {
		hits[i].Turn, err = turns.Of(context.WithoutCancel(ctx), l.conn, conversations[i], hits[i].Seq)
		if conversation.IsDamaged(err) { // the damage is in front of the message
			hits[i].Turn, err = 0, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return hits, nil
}

func (l *lookup) scanHit(rows *sql.Rows, terms []fulltext.Term) (h Hit, row int64, err error) {
	var sender []byte
	var at int64
	var text, calls string
	err = rows.Scan(&h.Key, &row, &h.Conversation, &h.Title, &h.Seq, &h.Role, &h.ToolName, &sender, &at, &text, &calls)
	if err == nil && len(sender) > 0 {
		err = json.Unmarshal(sender, &h.Sender)
	}
	h.At, h.Snippet = db.FromMillis(at), fulltext.NewSnippet(l.searched(text, calls), terms)
	return h, row, err
}
