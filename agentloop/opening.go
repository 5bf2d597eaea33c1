package agentloop

import (
	"context"
	"time"

	"parley/conversation"
	"parley/conversation/steps"
	"parley/conversation/summary"
)

// openingTimeout is how long the answer waits for the summary that a conversation opens
// with.
const openingTimeout = 30 * time.Second

const openingPrompt = "A conversation has ended, and another one begins in the same place. Write what whoever continues must know of it: " +
	"what it was about, what was agreed, what is still open, names and numbers that matter. " +
	"Write in the language of the conversation, in short lines, at most 150 words. Answer with the summary alone."

// openWithSummary has the model summarise the conversation that ended before the one
// of the question begins. The summary is stored with the run, so it is made once; where
// the model gives none, the conversation goes without it.
func (g *generation) openWithSummary(ctx context.Context, q *question) {
	ended := q.ended
	if !g.deps.CarrySummary || ended == nil || len(ended.History) == 0 || q.snapshot.Conversation.State.Before != "" {
		return
	}
	stretch := summary.Stretch{After: ended.Summary, Messages: newestWithin(ended.History, g.setup.model.Budget/2)}
	answer, err := g.ask(ctx, sideCall{steps.PurposeSummary, openingTimeout, openingPrompt, summaryQuestion(stretch)})
	text := ""
	if err == nil {
		text, err = summaryOf(answer)
	}
	if err != nil {
		if ctx.Err() == nil {
			g.deps.Log.Warn("summary of the ended conversation failed; the new one begins without", "session", g.loop.key, "error", err)
		}
		return
	}
	q.snapshot.Conversation.State.Before, _ = g.loop.router.fitSummary(text, g.setup.model.Budget/10)
}

// newestWithin returns the newest messages that have at most so many tokens, but at
// least one.
func newestWithin(history []conversation.Message, tokens int) []conversation.Message {
	first := len(history) - 1
	for tokens -= history[first].Tokens; first > 0; first-- {
		if tokens -= history[first-1].Tokens; tokens < 0 {
			break
		}
	}
	return history[first:]
}
