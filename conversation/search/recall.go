package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/turns"
	"parley/conversation/summary"
)

// Turn is one turn of a conversation.
type Turn struct {
	Number   int64 // from 1
	Messages []conversation.Message
}

// How much Turns returns at most.
const (
	maxTurns     = 1000
	maxTurnBytes = 1 << 20 // of text, after which it reads no further
)

// Turns returns the turns of a conversation from the number first to the number last, as far as there are such. It ends
// after 1,000 turns or a megabyte of text. The cost grows with what is returned, not with the conversation.
func (s *Searcher) Turns(ctx context.Context, key conversation.Key, id string, first, last int64) ([]Turn, error) {
	row, err := s.rowOf(ctx, key, id)
	if err != nil {
		return nil, err
	}
	first = max(first, 1)
	last = min(last, first+maxTurns-1)
	starts, err := turns.Starts(ctx, s.db, row, first, last-first+2)
	if err != nil || len(starts) == 0 || last < first {
		return nil, db.Explain(err)
	}
	var list []Turn
	for i := range starts[:min(int64(len(starts)), last-first+1)] {
		list = append(list, Turn{Number: first + int64(i)})
	}
	end := int64(math.MaxInt64)
	if len(starts) > len(list) {
		end = starts[len(list)]
	}
	list, err = s.fill(ctx, row, list, starts, end)
	return list, db.Explain(err)
}

// fill reads the messages of turns that begin at the starts and end before end. It leaves out the turns that it has no
// room for.
func (s *Searcher) fill(ctx context.Context, row int64, list []Turn, starts []int64, end int64) ([]Turn, error) {
	at, size := 0, 0
	for r, err := range conversation.ReadMessages(ctx, s.db, `
		WHERE conversation_id = ? AND seq >= ? AND seq < ? AND `+turns.InTalk+` ORDER BY seq`, row, starts[0], end) {
		if err != nil {
			return nil, err
		}
		for at+1 < len(list) && r.Seq >= starts[at+1] {
			at++
		}
		list[at].Messages = append(list[at].Messages, r)
		if size += len(r.Content); size > maxTurnBytes {
			return list[:at+1], nil
		}
	}
	return list, nil
}

// rowOf returns the row id of a session's conversation, or conversation.ErrNotFound.
func (s *Searcher) rowOf(ctx context.Context, key conversation.Key, id string) (row int64, err error) {
	err = s.db.QueryRowContext(ctx, `
		SELECT c.id FROM conversations c JOIN sessions s ON s.id = c.session_id
		WHERE c.uuid = ? AND s.key = ? AND c.deleted = 0`, id, string(key)).Scan(&row)
	if errors.Is(err, sql.ErrNoRows) {
		err = conversation.ErrNotFound
	}
	if err != nil {
		return 0, db.Explain(fmt.Errorf("conversation %s of %s: %w", id, key, err))
	}
	return row, nil
}

// ToolUse is a call of a tool, with its result.
type ToolUse struct {
	Turn   int64 // number
	Call   conversation.ToolCall
	Result conversation.Message
}

// ToolQuery chooses calls of tools in a conversation.
type ToolQuery struct {
	Tool        string // only calls of this one; "" = of any
	Except      string // none of this one; "" = no exception
	Skip, Limit int
}

// ToolUses returns the newest calls of tools in a conversation, the newest first.
func (s *Searcher) ToolUses(ctx context.Context, key conversation.Key, id string, query ToolQuery) ([]ToolUse, error) {
	row, err := s.rowOf(ctx, key, id)
	if err != nil {
		return nil, err
	}
	var uses []ToolUse
	for r, err := range conversation.ReadMessages(ctx, s.db, `
		WHERE conversation_id = ?1 AND role = 'tool' AND (?2 = '' OR tool_name = ?2) AND (?3 = '' OR tool_name IS DISTINCT FROM ?3)
			AND `+turns.InTalk+` ORDER BY seq DESC LIMIT ?4 OFFSET ?5`, row, query.Tool, query.Except, query.Limit, query.Skip) {
		if err != nil {
			return nil, db.Explain(err)
		}
		uses = append(uses, ToolUse{Result: r})
	}
	for i := range uses {
		use := &uses[i]
		if use.Turn, err = turns.Of(ctx, s.db, row, use.Result.Seq); err == nil {
			use.Call, err = s.callOf(ctx, row, use.Result)
		}
		if err != nil {
			return nil, db.Explain(err)
		}
	}
	return uses, nil
}

// callOf returns the call that a tool's result answers.
func (s *Searcher) callOf(ctx context.Context, row int64, result conversation.Message) (conversation.ToolCall, error) {
	for r, err := range conversation.ReadMessages(ctx, s.db, `
		WHERE conversation_id = ? AND seq < ? AND tool_calls IS NOT NULL AND `+turns.InTalk+` ORDER BY seq DESC LIMIT 1`, row, result.Seq) {
		if err != nil {
			return conversation.ToolCall{}, err
		}
		for _, call := range r.ToolCalls {
			if call.ID == result.ToolCallID {
				return call, nil
			}
		}
	}
	return conversation.ToolCall{ID: result.ToolCallID, Name: result.ToolName}, nil
}

// Overview is a conversation at a glance.
type Overview struct {
	Conversation conversation.Conversation
	Turns        int64                // how many it has
	Summary      conversation.Summary // zero if there is none
	Openings     []Turn               // some turns, spread over the conversation, with the first message of each
}

// Overview returns a conversation at a glance, with at most limit openings.
func (s *Searcher) Overview(ctx context.Context, key conversation.Key, id string, limit int) (o Overview, err error) {
	row, err := s.rowOf(ctx, key, id)
	if err != nil {
		return o, err
	}
	if o.Conversation, err = s.store.Conversation(ctx, id); err != nil {
		return o, err
	}
	if o.Summary, err = summary.New(s.store).Newest(ctx, id); err != nil {
		return o, err
	}
	if o.Turns, err = turns.Of(ctx, s.db, row, o.Conversation.Messages); err != nil {
		return o, db.Explain(err)
	}
	for _, turn := range spread(o.Turns, int64(limit)) {
		m, err := s.opening(ctx, row, turn)
		if err != nil {
			return o, db.Explain(err)
		}
		o.Openings = append(o.Openings, Turn{Number: turn, Messages: []conversation.Message{m}})
	}
	return o, nil
}

// spread returns at most limit of the numbers from 1 to n, evenly spread, the first and the last among them.
func spread(n, limit int64) (chosen []int64) {
	limit = min(limit, n)
	for i := range limit {
		chosen = append(chosen, 1+i*(n-1)/max(limit-1, 1))
	}
	return chosen
}

// opening returns the first message of a turn.
func (s *Searcher) opening(ctx context.Context, row, turn int64) (m conversation.Message, err error) {
	starts, err := turns.Starts(ctx, s.db, row, turn, 1)
	if err != nil || len(starts) == 0 {
		return m, err
	}
	for r, err := range conversation.ReadMessages(ctx, s.db, ` WHERE conversation_id = ? AND seq = ?`, row, starts[0]) {
		return r, err
	}
	return m, nil
}
