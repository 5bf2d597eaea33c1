package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/search"
)

// search returns the hits, the best first, each with the turn before and after it.
func (r *recall) search(ctx context.Context, a recallArguments) (string, error) {
	query := search.Query{Key: r.session.Key, Words: a.Query, ExceptTool: RecallName, Limit: a.limit(recallHits)}
	where := "this conversation"
	switch a.Scope {
	case "", "conversation":
		query.Conversation = r.session.Conversation
	case "session":
		where = "this chat"
	default:
		return "", fmt.Errorf("there is no scope %q; allowed are conversation, session", a.Scope)
	}
	if strings.TrimSpace(a.Query) == "" {
		return "", errors.New("search needs a query: a few words, or a \"quoted phrase\"")
	}
	if len(a.Query) > recallQueryBytes {
		return "", fmt.Errorf("the query has %d bytes; a few words are enough, at most %d bytes", len(a.Query), recallQueryBytes)
	}
	hits, err := r.archive.Find(ctx, query)
	if err != nil {
		return "", err
	}
	words := oneLine(a.Query, 100)
	if len(hits) == 0 {
		return fmt.Sprintf("Nothing in %s has the words %s. Try fewer or other words, or scope session.", where, quoted(words)), nil
	}
	p := page{head: fmt.Sprintf("%s for %s in %s, the best first; range shows more of a turn.",
		plural(int64(len(hits)), "message"), quoted(words), where)}
	shown := map[turnKey]bool{}
	for _, h := range hits {
		blocks, err := r.around(ctx, h, shown)
		if err != nil {
			return "", err
		}
		p.blocks = append(p.blocks, blocks...)
	}
	return p.fit(r.counter), nil
}

// turnKey names a turn, which a page shows only once.
type turnKey struct {
	conversation string
	turn         int64
}

// around returns the turn of a hit with the turns before and after it, unless these
// are shown already.
func (r *recall) around(ctx context.Context, h search.Hit, shown map[turnKey]bool) ([]block, error) {
	turns, err := r.archive.Turns(ctx, h.Key, h.Conversation, h.Turn-1, h.Turn+1)
	if err != nil {
		return nil, err
	}
	var blocks []block
	for _, turn := range turns {
		key := turnKey{h.Conversation, turn.Number}
		if shown[key] && turn.Number != h.Turn {
			continue
		}
		head := fmt.Sprintf("Turn %d", turn.Number)
		if h.Conversation != r.session.Conversation {
			head += fmt.Sprintf(" of %s, conversation %s", titleOf(h.Title), h.Conversation)
		}
		if turn.Number == h.Turn {
			if shown[key] {
				head += ", again"
			}
			blocks = append(blocks, hitBlock(head, turn.Messages, h))
		} else {
			blocks = append(blocks, blockOf(head, turn.Messages, besideHit))
		}
		shown[key] = true
	}
	return blocks, nil
}

// hitBlock returns the turn of a hit: the message that was found, whole or, if it is
// long, its snippet, and the other messages shortened.
func hitBlock(head string, messages []conversation.Message, h search.Hit) block {
	b := blockOf(head+" (found)", messages, besideHit)
	b.lines = nil
	for _, m := range messages {
		if m.Seq != h.Seq {
			b.lines = append(b.lines, linesOf(m, besideHit)...)
			continue
		}
		if written(m) > wholeHit {
			m.Content = h.Snippet.Mark("**", "**")
			m.ToolCalls = slices.Clone(m.ToolCalls)
			for i := range m.ToolCalls {
				m.ToolCalls[i].Arguments = "…"
			}
		}
		b.lines = append(b.lines, linesOf(m, wholeMessage)...)
	}
	return b
}

// written returns how many bytes a message and its tool calls have.
func written(m conversation.Message) int {
	n := len(m.Content)
	for _, call := range m.ToolCalls {
		n += len(call.Arguments)
	}
	return n
}
