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

// The limits of what Turns returns.
const (
	maxTurns     = 1000
	maxTurnBytes = 1 << 20 // Turns ends with the message in which the text exceeds this
)

// Turns returns the turns of a conversation from the number first to the number last, counted from 1. Numbers without a turn
// are ignored. It returns at most 1,000 turns, and ends with the message in which the text exceeds 1 MiB. The cost grows
// with what is returned, not with the conversation. The error is conversation.ErrNotFound if the session does not have the
// conversation.
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

// fill reads the messages of the turns in list. starts has the seq of each turn's first message; the last turn ends before
// the seq end. When the text exceeds maxTurnBytes, fill returns only what it has read.
func (s *Searcher) fill(ctx context.Context, row int64, list []Turn, starts []int64, end int64) ([]Turn, error) {
	at, size := 0, 0
	for r, err := range conversation.ReadMessages(ctx, s.db, `
		WHERE conversation_id = ? AND seq >= ? AND seq < ? AND `+turns.Visible+` ORDER BY seq`, row, starts[0], end) {
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

// rowOf returns the id of the row of a session's conversation. The error is conversation.ErrNotFound if there is none.
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
	Turn   int64 // the number of the turn, from 1
	Call   conversation.ToolCall
	Result conversation.Message
}

// ToolQuery chooses calls of tools in a conversation.
type ToolQuery struct {
	Tool   string // only calls of this tool; "" = of all tools
	Except string // no calls of this tool; "" = no exception
	Skip   int    // the number of calls to leave out in front
	Limit  int    // the number of calls to return at most
}

// ToolUses returns the calls of tools in a conversation that have a result, the newest first. The error is
// conversation.ErrNotFound if the session does not have the conversation.
func (s *Searcher) ToolUses(ctx context.Context, key conversation.Key, id string, query ToolQuery) ([]ToolUse, error) {
	row, err := s.rowOf(ctx, key, id)
	if err != nil {
		return nil, err
	}
	var uses []ToolUse
	for r, err := range conversation.ReadMessages(ctx, s.db, `
		WHERE conversation_id = ?1 AND role = 'tool' AND (?2 = '' OR tool_name = ?2) AND (?3 = '' OR tool_name IS DISTINCT FROM ?3)
			AND `+turns.Visible+` ORDER BY seq DESC LIMIT ?4 OFFSET ?5`, row, query.Tool, query.Except, query.Limit, query.Skip) {
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

// callOf returns the call of a tool's result. If it is missing, callOf returns one with the ID and name of the result only.
func (s *Searcher) callOf(ctx context.Context, row int64, result conversation.Message) (conversation.ToolCall, error) {
	for r, err := range conversation.ReadMessages(ctx, s.db, `
		WHERE conversation_id = ? AND seq < ? AND tool_calls IS NOT NULL AND `+turns.Visible+` ORDER BY seq DESC LIMIT 1`, row, result.Seq) {
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
	Turns        int64                // the number of its turns
	Summary      conversation.Summary // the newest summary; the zero value if there is none
	Openings     []Turn               // some turns, spread evenly over the conversation, each with its first message only
}

// Overview returns a conversation at a glance, with at most limit openings. The error is conversation.ErrNotFound if the session
// does not have the conversation.
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

// spread returns at most limit of the numbers from 1 to n, evenly spread. The first is 1, and the last n if there are several.
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
