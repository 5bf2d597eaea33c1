package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/summary"
	"parley/llm"
)

// The strategies for the part of a conversation that does not fit into the window.
const (
	SlidingWindow = "sliding_window" // it is left out
	Summarization = "summarization"  // a summary takes its place
)

const (
	summaryTimeout = 5 * time.Minute
	summaryMessage = 4000 // runes of each message that the model reads
	summaryResult  = 800  // runes of each tool call and result that the model reads
)

// cutSummary stands at the end of a summary that reached the model's length limit.
const cutSummary = "[… the summary was cut off here …]"

const summaryPrompt = "You keep the notes of a long conversation. Write the summary anew so that it also covers what followed: " +
	"facts, names, numbers, decisions with their reasons, rules that were set, what was done to which files, what is still open. " +
	"Leave out courtesies. Write in the language of the conversation, in short lines, at most 400 words. Answer with the summary alone."

// summaries holds the conversations that are being summarised, so that none is
// summarised twice at once.
type summaries struct {
	mu      sync.Mutex
	ongoing map[string]bool // by ID
}

func (s *summaries) begin(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ongoing[id] {
		return false
	}
	if s.ongoing == nil {
		s.ongoing = map[string]bool{}
	}
	s.ongoing[id] = true
	return true
}

func (s *summaries) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ongoing, id)
}

// requestSummary has the older part of the conversation summarised in the background
// when the messages that no summary covers take more than half of the budget.
func (l *loop) requestSummary() {
	if l.deps.Strategy != Summarization || !l.cache.valid {
		return
	}
	id, before := l.cache.snapshot.Conversation.ID, l.summaryEnd()
	if before == 0 || !l.router.summaries.begin(id) {
		return
	}
	key := l.key
	taken := l.router.background.submit(func(ctx context.Context) {
		defer l.router.summaries.end(id)
		if err := l.router.summarize(ctx, key, id, before); err != nil && ctx.Err() == nil {
			l.deps.Log.Warn("summary failed; the next answer tries again", "session", key, "error", err)
		}
	})
	if !taken {
		l.router.summaries.end(id)
	}
}

// summaryEnd returns the seq before which the conversation is to be summarised, or 0
// when that is not needed yet. The newest messages stay as they are: KeepRecent of
// them, fewer where these take more than a third of the budget, but at least the last
// turn.
func (l *loop) summaryEnd() int64 {
	history := window.Uncovered(l.cache.snapshot.History, l.cache.snapshot.Summary)
	total := 0
	for i := range history {
		total += history[i].Tokens
	}
	if total <= l.deps.Budget/2 {
		return 0
	}
	end, kept := int64(0), 0
	for i := len(history) - 1; i > 0; i-- {
		if kept += history[i].Tokens; kept > l.deps.Budget/3 && end > 0 {
			return end
		}
		if conversation.StartsTurn(&history[i-1], &history[i]) {
			end = history[i].Seq
			if len(history)-i >= l.deps.KeepRecent {
				return end
			}
		}
	}
	return end
}

// summarize makes and stores a summary of the messages before a seq. It runs in the
// background; the loop may have ended.
func (r *Router) summarize(ctx context.Context, key conversation.Key, id string, before int64) error {
	stretch, err := summary.New(r.deps.Store).Stretch(ctx, id, before, r.deps.Budget/2)
	if err != nil || len(stretch.Messages) == 0 {
		return err
	}
	calling, cancel := context.WithTimeout(ctx, summaryTimeout)
	defer cancel()
	answer, err := r.deps.Model.Complete(calling, llm.Request{Messages: []llm.Message{
		{Role: "system", Content: summaryPrompt},
		{Role: "user", Content: summaryQuestion(stretch)},
	}}, func(llm.Delta) {})
	if err != nil {
		return err
	}
	text := strings.TrimSpace(answer.Text)
	switch {
	case text == "":
		return errors.New("the model gave no summary")
	case answer.FinishReason == llm.FinishContentFilter:
		return errors.New("the provider's content filter cut the summary off")
	case answer.IsCut(): // another attempt would be cut off as well
		text += "\n" + cutSummary
	}
	text, tokens := r.fitSummary(text)
	stored, err := summary.New(r.deps.Store).Add(ctx, stretch, text, tokens)
	if stored {
		r.Edited(key)
	}
	return err
}

// fitSummary cuts a summary to at most a fifth of the budget.
func (r *Router) fitSummary(text string) (fitted string, tokens int) {
	limit := r.deps.Budget / 5
	if tokens = r.deps.Counter.Text(text); tokens > limit {
		head, tail := r.deps.Counter.Cut(text, limit)
		text = head + window.CutNotice + tail
		tokens = r.deps.Counter.Text(text)
	}
	return text, tokens
}

func summaryQuestion(t summary.Stretch) string {
	var b strings.Builder
	if t.After.Through > 0 {
		fmt.Fprintf(&b, "The summary so far:\n\n%s\n\nWhat followed:\n\n", t.After.Content)
	}
	for _, m := range t.Messages {
		limit := summaryMessage
		if m.Role == conversation.RoleTool {
			limit = summaryResult
		}
		shown := window.ToModel(&m)
		fmt.Fprintf(&b, "%s: %s\n", m.Role, window.Excerpt(shown.Content, limit))
		for _, call := range m.ToolCalls {
			fmt.Fprintf(&b, "%s calls %s %s\n", m.Role, call.Name, window.OneLine(call.Arguments, summaryResult))
		}
	}
	return b.String()
}
