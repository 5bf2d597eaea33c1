package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"parley/conversation"
	"parley/conversation/search"
)

// Counter counts tokens as the model does. *llm.Counter is one.
type Counter interface {
	Text(text string) int
	Cut(text string, tokens int) (head, tail string) // the beginning and the end of a text, which together have at most so many tokens
}

// RecallName is the name of the tool Recall.
const RecallName = "conversation_recall"

// recall is one call of the tool.
type recall struct {
	store   *conversation.Store
	archive *search.Searcher
	counter Counter
	session Session // Conversation is the one that is asked about
	active  string  // ID of the conversation in which the tool is called
	tokens  int     // most tokens of the result
}

// recallArguments are the arguments of a call. Which of them are used depends on the
// action.
type recallArguments struct {
	Action       string `json:"action"`
	Query        string `json:"query"`
	Scope        string `json:"scope"`
	StartTurn    int64  `json:"start_turn"`
	EndTurn      int64  `json:"end_turn"`
	ToolName     string `json:"tool_name"`
	Conversation string `json:"conversation"`
	Limit        int    `json:"limit"`
	Offset       int    `json:"offset"`
}

// The limits of one call.
const (
	recallMost       = 50   // highest limit, in turns or calls
	recallOffset     = 1000 // highest offset, in turns or calls
	recallTurns      = 20   // default limits of the actions: this one, recallCalls and recallOpenings
	recallCalls      = 10
	recallOpenings   = 15
	recallQueryBytes = 2000
)

// Recall returns the tool by which the model looks up what its window does not show:
// everything that was said in the session, and nothing of any other session. A result
// has at most 8,000 tokens, and at most a quarter of the window.
func Recall(store *conversation.Store, counter Counter) Tool {
	return Tool{
		Name:       RecallName,
		Repeatable: true,
		ReadOnly:   true,
		Description: "Look up what was said in this chat and is not shown to you. " +
			"search finds turns by words, best first; range shows turns by number; tool_calls shows earlier calls with results; " +
			"summary shows a conversation at a glance, with its rules, decisions and files. Each result says how to see more.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {
				"action": {"type": "string", "enum": ["search", "range", "tool_calls", "summary"]},
				"query": {"type": "string", "description": "search: a few words, or a \"quoted phrase\""},
				"scope": {"type": "string", "enum": ["conversation", "session"],
					"description": "search: this conversation (default), or also the earlier ones of this chat"},
				"start_turn": {"type": "integer", "description": "range: first turn, from 1"},
				"end_turn": {"type": "integer", "description": "range: last turn"},
				"tool_name": {"type": "string", "description": "tool_calls: of this tool alone"},
				"conversation": {"type": "string", "description": "id of an earlier conversation, as search and summary name it; this one when left out"},
				"limit": {"type": "integer", "description": "how many turns or calls at most, 1 to 50"},
				"offset": {"type": "integer", "description": "search, tool_calls: leave out so many first ones, for the next page"}
			},
			"required": ["action"],
			"additionalProperties": false
		}`),
		Call: Text(func(ctx context.Context, arguments json.RawMessage) (string, error) {
			session, ok := SessionOf(ctx)
			if !ok {
				return "", errors.New("there is no conversation to look into here")
			}
			var a recallArguments
			if err := json.Unmarshal(arguments, &a); err != nil {
				return "", fmt.Errorf("conversation_recall takes an object with action, query, scope, start_turn, end_turn, tool_name, conversation, limit, offset: %w", err)
			}
			r := &recall{store: store, archive: search.New(store), counter: counter, session: session, active: session.Conversation, tokens: recallTokens}
			if session.Window > 0 {
				r.tokens = min(recallTokens, max(session.Window/4, leastRecallTokens))
			}
			return r.act(ctx, a)
		}),
	}
}

func (r *recall) act(ctx context.Context, a recallArguments) (string, error) {
	if a.Limit < 0 || a.Limit > recallMost {
		return "", fmt.Errorf("limit is %d; allowed are 1 to %d", a.Limit, recallMost)
	}
	if a.Offset < 0 || a.Offset > recallOffset {
		return "", fmt.Errorf("offset is %d; allowed are 0 to %d", a.Offset, recallOffset)
	}
	if a.Conversation != "" {
		r.session.Conversation = a.Conversation
	}
	var text string
	var err error
	switch a.Action {
	case "search":
		text, err = r.search(ctx, a)
	case "range":
		text, err = r.turns(ctx, a)
	case "tool_calls":
		text, err = r.toolCalls(ctx, a)
	case "summary":
		text, err = r.summary(ctx, a)
	default:
		return "", fmt.Errorf("there is no action %q; allowed are search, range, tool_calls, summary", a.Action)
	}
	if errors.Is(err, conversation.ErrNotFound) {
		if a.Conversation == "" {
			return "Nothing of this conversation is stored yet; search with scope session looks into the earlier ones of this chat.", nil
		}
		return "", fmt.Errorf("this chat has no conversation %q; search with scope session names those that it has", a.Conversation)
	}
	return text, err
}

func (a recallArguments) limit(otherwise int) int {
	if a.Limit == 0 {
		return otherwise
	}
	return a.Limit
}

func (r *recall) turns(ctx context.Context, a recallArguments) (string, error) {
	if a.StartTurn < 1 {
		return "", fmt.Errorf("start_turn is %d; range needs a turn from 1 on", a.StartTurn)
	}
	if a.EndTurn == 0 {
		a.EndTurn = math.MaxInt64
	}
	if a.EndTurn < a.StartTurn {
		return "", fmt.Errorf("end_turn %d comes before start_turn %d", a.EndTurn, a.StartTurn)
	}
	last := min(a.EndTurn, a.StartTurn+int64(a.limit(recallTurns))-1)
	turns, err := r.archive.Turns(ctx, r.session.Key, r.session.Conversation, a.StartTurn, last)
	if err != nil {
		return "", err
	}
	total, err := r.total(ctx)
	if err != nil {
		return "", err
	}
	if len(turns) == 0 {
		return fmt.Sprintf("There is no turn %d: this conversation has %s.", a.StartTurn, plural(total, "turn")), nil
	}
	p := page{oldestFirst: true}
	for _, turn := range turns {
		p.blocks = append(p.blocks, blockOf(fmt.Sprintf("Turn %d", turn.Number), turn.Messages, wholeMessage))
	}
	p.frame = func(left int) (head, foot string) {
		first, end := turns[left].Number, turns[len(turns)-1].Number
		head = fmt.Sprintf("Turns %d to %d of %d.", first, end, total)
		var more []string
		if left > 0 {
			more = append(more, fmt.Sprintf("turns %d to %d did not fit: start_turn %d, end_turn %d", a.StartTurn, first-1, a.StartTurn, first-1))
		}
		if end < total {
			more = append(more, fmt.Sprintf("what follows: start_turn %d", end+1))
		}
		return head, footOf(more...)
	}
	return p.fit(r.counter, r.tokens), nil
}

// total returns how many turns the conversation has.
func (r *recall) total(ctx context.Context) (int64, error) {
	overview, err := r.archive.Overview(ctx, r.session.Key, r.session.Conversation, 0)
	return overview.Turns, err
}

func (r *recall) toolCalls(ctx context.Context, a recallArguments) (string, error) {
	limit := a.limit(recallCalls)
	query := search.ToolQuery{Tool: a.ToolName, Skip: a.Offset, Limit: limit + 1}
	if a.ToolName == "" {
		query.Except = RecallName
	}
	uses, err := r.archive.ToolUses(ctx, r.session.Key, r.session.Conversation, query)
	if err != nil {
		return "", err
	}
	of := "any tool"
	if a.ToolName != "" {
		of = oneLine(a.ToolName, 60)
	}
	if len(uses) == 0 {
		return fmt.Sprintf("There are no %scalls of %s in this conversation.", further(a.Offset), of), nil
	}
	var p page
	for _, u := range uses[:min(limit, len(uses))] {
		p.blocks = append(p.blocks, block{
			head: fmt.Sprintf("Turn %d, %s", u.Turn, when(u.Result.At)),
			lines: []line{
				{text: u.Call.Name + " " + oneLine(u.Call.Arguments, wholeMessage)},
				{text: "result: " + u.Result.Content, tool: true},
			},
		})
	}
	p.frame = func(left int) (head, foot string) {
		shown := min(limit, len(uses)) - left
		head = fmt.Sprintf("%s of %s in this conversation, the newest first.", plural(int64(shown), "call"), of)
		if shown < len(uses) {
			foot = footOf(fmt.Sprintf("older calls: offset %d", a.Offset+shown))
		}
		return head, foot
	}
	return p.fit(r.counter, r.tokens), nil
}

// further returns a word for an answer that has nothing behind an offset.
func further(offset int) string {
	if offset > 0 {
		return "further "
	}
	return ""
}
