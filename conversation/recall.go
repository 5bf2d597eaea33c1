package conversation

import (
	"context"
	"errors"
	"fmt"
	"math"

	"parley/conversation/internal/db"
)

// What a conversation holds beyond the window, by the numbers of its exchanges.
// Each asks for the session's key as well: another session's conversation is
// ErrNotFound.

// Exchange is one turn of a conversation.
type Exchange struct {
	Turn     int64 // its number, from 1
	Messages []Message
}

const (
	exchangesMost  = 1000    // that Exchanges gives at once
	exchangesBytes = 1 << 20 // of text, after which it reads no further
)

// Exchanges gives the exchanges of a conversation from the number first to the
// number last, both included, in order and as far as there are such. It ends
// after 1,000 of them or a megabyte of text. The cost grows with what is given,
// not with the conversation.
func (s *Store) Exchanges(ctx context.Context, key Key, conversation string, first, last int64) ([]Exchange, error) {
	c, err := s.conversationIn(ctx, key, conversation)
	if err != nil {
		return nil, err
	}
	first = max(first, 1)
	last = min(last, first+exchangesMost-1)
	starts, err := startsFrom(ctx, s.db, c.row, first, last-first+2)
	if err != nil || len(starts) == 0 || last < first {
		return nil, db.Explain(err)
	}
	var list []Exchange
	for i := range starts[:min(int64(len(starts)), last-first+1)] {
		list = append(list, Exchange{Turn: first + int64(i)})
	}
	end := int64(math.MaxInt64)
	if len(starts) > len(list) {
		end = starts[len(list)]
	}
	list, err = s.fill(ctx, c.row, list, starts, end)
	return list, db.Explain(err)
}

// fill reads the messages of exchanges that begin at the starts and end before
// end. Those that it has no room for are left out.
func (s *Store) fill(ctx context.Context, conversation int64, list []Exchange, starts []int64, end int64) ([]Exchange, error) {
	rows, err := s.db.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = ? AND seq >= ? AND seq < ? AND `+inTalk+` ORDER BY seq`, conversation, starts[0], end)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	at := 0
	for size := 0; rows.Next(); {
		m, err := scanMessage(rows)
		if err != nil {
			return nil, err
		}
		for at+1 < len(list) && m.Seq >= starts[at+1] {
			at++
		}
		list[at].Messages = append(list[at].Messages, m)
		if size += len(m.Content); size > exchangesBytes {
			return list[:at+1], nil
		}
	}
	return list, rows.Err()
}

// conversationIn is a conversation of a session, or ErrNotFound.
func (s *Store) conversationIn(ctx context.Context, key Key, id string) (Conversation, error) {
	var place string
	c, err := scanConversation(s.db.QueryRowContext(ctx, selectConversations+`
		WHERE c.uuid = ? AND s.key = ? AND c.deleted = 0`, id, string(key)), &place)
	if err != nil {
		return c, db.Explain(fmt.Errorf("conversation %s of %s: %w", id, key, notFound(err)))
	}
	return c, nil
}

// ToolUse is a call of a tool with what came of it.
type ToolUse struct {
	Turn   int64
	Call   ToolCall
	Result Message
}

// ToolUses gives the newest calls of a tool in a conversation, of all tools when
// tool is "", at most limit, the newest first.
func (s *Store) ToolUses(ctx context.Context, key Key, conversation, tool string, limit int) ([]ToolUse, error) {
	c, err := s.conversationIn(ctx, key, conversation)
	if err != nil {
		return nil, err
	}
	results, err := s.toolResults(ctx, c.row, tool, limit)
	if err != nil {
		return nil, db.Explain(err)
	}
	var uses []ToolUse
	for _, result := range results {
		use := ToolUse{Result: result}
		if use.Turn, err = turnOf(ctx, s.db, c.row, result.Seq); err == nil {
			use.Call, err = s.callOf(ctx, c.row, result)
		}
		if err != nil {
			return nil, db.Explain(err)
		}
		uses = append(uses, use)
	}
	return uses, nil
}

func (s *Store) toolResults(ctx context.Context, conversation int64, tool string, limit int) ([]Message, error) {
	return readMessages(ctx, s.db, selectMessages+`
		WHERE conversation_id = ?1 AND role = 'tool' AND (?2 = '' OR tool_name = ?2) AND `+inTalk+` ORDER BY seq DESC LIMIT ?3`,
		conversation, tool, limit)
}

// callOf is the call that a tool's result answers.
func (s *Store) callOf(ctx context.Context, conversation int64, result Message) (ToolCall, error) {
	rows, err := s.db.QueryContext(ctx, selectMessages+`
		WHERE conversation_id = ? AND seq < ? AND tool_calls IS NOT NULL AND `+inTalk+` ORDER BY seq DESC LIMIT 1`, conversation, result.Seq)
	if err != nil {
		return ToolCall{}, err
	}
	defer rows.Close()
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return ToolCall{}, err
		}
		for _, call := range m.ToolCalls {
			if call.ID == result.ToolCallID {
				return call, nil
			}
		}
	}
	return ToolCall{ID: result.ToolCallID, Name: result.ToolName}, rows.Err()
}

// Overview is a conversation at a glance.
type Overview struct {
	Conversation Conversation
	Turns        int64      // how many exchanges it has
	Summary      Summary    // zero when nobody has made one
	Openings     []Exchange // the first message of some exchanges, spread over the conversation
}

// Overview gives a conversation at a glance, with at most limit openings.
func (s *Store) Overview(ctx context.Context, key Key, conversation string, limit int) (o Overview, err error) {
	if o.Conversation, err = s.conversationIn(ctx, key, conversation); err != nil {
		return o, err
	}
	if o.Summary, err = s.Summary(ctx, conversation); err != nil {
		return o, err
	}
	row := o.Conversation.row
	if o.Turns, err = turnOf(ctx, s.db, row, o.Conversation.Messages); err != nil {
		return o, db.Explain(err)
	}
	for _, turn := range spread(o.Turns, int64(limit)) {
		m, err := s.opening(ctx, row, turn)
		if err != nil {
			return o, db.Explain(err)
		}
		o.Openings = append(o.Openings, Exchange{Turn: turn, Messages: []Message{m}})
	}
	return o, nil
}

// spread chooses at most limit of the numbers from 1 to n, the first and the
// last among them.
func spread(n, limit int64) (chosen []int64) {
	limit = min(limit, n)
	for i := range limit {
		chosen = append(chosen, 1+i*(n-1)/max(limit-1, 1))
	}
	return chosen
}

// opening is the first message of an exchange that there is.
func (s *Store) opening(ctx context.Context, conversation, turn int64) (m Message, err error) {
	starts, err := startsFrom(ctx, s.db, conversation, turn, 1)
	if err != nil || len(starts) == 0 {
		return m, err
	}
	rows, err := s.db.QueryContext(ctx, selectMessages+` WHERE conversation_id = ? AND seq = ?`, conversation, starts[0])
	if err != nil {
		return m, err
	}
	defer rows.Close()
	if rows.Next() {
		m, err = scanMessage(rows)
	}
	return m, errors.Join(err, rows.Err())
}
