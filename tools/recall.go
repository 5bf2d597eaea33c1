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
	archive *search.Searcher
	counter Counter
	session Session
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
}

// The limits of one call.
const (
	recallMost       = 50 // hits, turns or calls
	recallHits       = 5  // default, as the three below
	recallTurns      = 20
	recallCalls      = 10
	recallOpenings   = 15
	recallQueryBytes = 2000
)

// Recall returns the tool by which the model looks up what its window does not show:
// everything that was said in the session, and nothing of any other session. A result
// has at most 8,000 tokens.
func Recall(store *conversation.Store, counter Counter) Tool {
	return Tool{
		Name: RecallName,
		Description: "Look up what was said in this chat and is not shown to you. " +
			"search finds words, range shows turns by number, tool_calls shows earlier calls with results, summary shows a conversation at a glance.",
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
				"conversation": {"type": "string", "description": "id of an earlier conversation, as search names it; this one when left out"},
				"limit": {"type": "integer", "description": "how many hits, turns or calls, 1 to 50"}
			},
			"required": ["action"],
			"additionalProperties": false
		}`),
		Call: func(ctx context.Context, arguments json.RawMessage) (string, error) {
			session, ok := SessionOf(ctx)
			if !ok {
				return "", errors.New("there is no conversation to look into here")
			}
			var a recallArguments
			if err := json.Unmarshal(arguments, &a); err != nil {
				return "", fmt.Errorf("conversation_recall takes an object with action, query, scope, start_turn, end_turn, tool_name, conversation, limit: %w", err)
			}
			return (&recall{search.New(store), counter, session}).act(ctx, a)
		},
	}
}

func (r *recall) act(ctx context.Context, a recallArguments) (string, error) {
	if a.Limit < 0 || a.Limit > recallMost {
		return "", fmt.Errorf("limit is %d; allowed are 1 to %d", a.Limit, recallMost)
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
	p := page{head: fmt.Sprintf("Turns %d to %d of %d.", turns[0].Number, turns[len(turns)-1].Number, total)}
	if end := turns[len(turns)-1].Number; end < min(a.EndTurn, total) {
		p.foot = fmt.Sprintf("[More: start_turn %d]", end+1)
	}
	for _, turn := range turns {
		p.blocks = append(p.blocks, blockOf(fmt.Sprintf("Turn %d", turn.Number), turn.Messages, wholeMessage))
	}
	return p.fit(r.counter), nil
}

// total returns how many turns the conversation has.
func (r *recall) total(ctx context.Context) (int64, error) {
	overview, err := r.archive.Overview(ctx, r.session.Key, r.session.Conversation, 0)
	return overview.Turns, err
}

func (r *recall) toolCalls(ctx context.Context, a recallArguments) (string, error) {
	uses, err := r.archive.ToolUses(ctx, r.session.Key, r.session.Conversation, a.ToolName, a.limit(recallCalls))
	if err != nil {
		return "", err
	}
	of := "any tool"
	if a.ToolName != "" {
		of = oneLine(a.ToolName, 60)
	}
	if len(uses) == 0 {
		return fmt.Sprintf("There are no calls of %s in this conversation.", of), nil
	}
	p := page{head: fmt.Sprintf("The newest %s of %s in this conversation, the newest first.", plural(int64(len(uses)), "call"), of)}
	for _, u := range uses {
		p.blocks = append(p.blocks, block{
			at:   u.Result.At,
			head: fmt.Sprintf("Turn %d, %s", u.Turn, when(u.Result.At)),
			lines: []line{
				{text: u.Call.Name + " " + oneLine(u.Call.Arguments, wholeMessage)},
				{text: "result: " + u.Result.Content, tool: true},
			},
		})
	}
	return p.fit(r.counter), nil
}

func (r *recall) summary(ctx context.Context, a recallArguments) (string, error) {
	o, err := r.archive.Overview(ctx, r.session.Key, r.session.Conversation, a.limit(recallOpenings))
	if err != nil {
		return "", err
	}
	c := o.Conversation
	p := page{head: fmt.Sprintf("%s: %s, %s, from %s to %s.", titleOf(c.Title), plural(o.Turns, "turn"),
		plural(c.Messages, "message"), when(c.CreatedAt), when(c.UpdatedAt))}
	if o.Summary.Content != "" {
		p.head += fmt.Sprintf("\n\nSummary made at %s, of messages 1 to %d:\n%s", when(o.Summary.At), o.Summary.Through, o.Summary.Content)
	} else {
		p.head += "\n\nNo summary of it has been made."
	}
	if len(o.Openings) > 0 {
		p.head += "\n\nHow some turns begin:"
	}
	for _, turn := range o.Openings {
		m := turn.Messages[0]
		p.blocks = append(p.blocks, block{at: m.At, head: fmt.Sprintf("Turn %d, %s: %s", turn.Number, when(m.At), firstLine(m.Content))})
	}
	return p.fit(r.counter), nil
}
