package window

import (
	"slices"

	"parley/llm"
)

// Counter counts tokens as the model does. *llm.Counter is one.
type Counter interface {
	Text(text string) int
	Message(m llm.Message) int
	Tools(list []llm.Tool) int
	Cut(text string, tokens int) (head, tail string) // the beginning and the end of a text, which together have at most so many tokens
}

// Budget returns how many tokens the list for one call may have: the smaller of
// maxTokens and 0.8 of the model's context window, less the reserve for the answer,
// but at least MinBudget.
func Budget(maxTokens, contextWindow, reserve int) int {
	budget := min(maxTokens, contextWindow*8/10)
	return max(budget-min(reserve, budget/2), MinBudget)
}

// MinBudget is the smallest budget, in tokens: enough for a system prompt, a short
// question, and the end of what came before it.
const MinBudget = 250

// Shrink lowers a budget until the list is smaller than the one that the server has
// refused. ok is false when no smaller list would make sense. limit is the number of
// tokens that the server takes, or 0 when it does not say; a fifth of it is left for
// the answer, and a fifth for another way of counting.
func (w Window) Shrink(budget int, refused List, limit int, calibration *Calibration) (shrunk int, ok bool) {
	if limit > 0 {
		budget = max(min(budget, limit-limit/5*2), MinBudget)
	}
	for {
		next := w.Counted(calibration.Budget(budget))
		if next.Cramped {
			return budget, false
		}
		if next.Tokens < refused.Tokens && !slices.EqualFunc(next.Messages, refused.Messages, sameText) {
			return budget, true
		}
		if budget == MinBudget {
			return budget, false
		}
		budget = max(int(float64(budget)*shrinkTo), MinBudget)
	}
}

func sameText(a, b llm.Message) bool {
	return a.Content == b.Content && len(a.Images) == len(b.Images)
}
