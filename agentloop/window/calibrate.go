package window

import (
	"sync"

	"parley/conversation"
)

// Calibration learns how many tokens the server counts for one that the gateway
// counts. They differ: servers frame messages by templates of their own, and many
// models have another vocabulary than the counter.
type Calibration struct {
	mu     sync.Mutex
	ratios map[string]float64 // by the model's name, as the server gives it
	ratio  float64            // of the model that answered last; 0 = not known yet
}

const (
	leastCounted = 200 // tokens of a list to learn from: in a shorter one, the frame weighs more than the words
	maxRatio     = 2.0 // no tokenizer in use makes so many more tokens of a text
	newestWeight = 0.2 // weight of the newest ratio in the moving average
	maxModels    = 100 // that are remembered
)

// Learn compares the tokens of a list as the gateway has counted them and as the
// server has reported them. A server that does not count reports 0.
func (c *Calibration) Learn(model string, counted, reported int) {
	if counted < leastCounted || reported <= 0 {
		return
	}
	// A ratio below 1 is not believed: some servers report only the tokens that they
	// did not have in a cache.
	ratio := min(max(float64(reported)/float64(counted), 1), maxRatio)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, known := c.ratios[model]; known {
		ratio = before + (ratio-before)*newestWeight
	} else if c.ratios == nil || len(c.ratios) >= maxModels {
		c.ratios = map[string]float64{}
	}
	c.ratios[model], c.ratio = ratio, ratio
}

// Budget converts a budget in the server's tokens to tokens as the gateway counts.
func (c *Calibration) Budget(tokens int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ratio == 0 {
		return tokens
	}
	return max(int(float64(tokens)/c.ratio), min(tokens, MinBudget))
}

// Budgets holds the lowered budgets of sessions whose list the server has refused as
// too long, so that their next runs are not refused first. They grow again from run
// to run. Each is of one session, since a user may have brought about the refusal.
type Budgets struct {
	mu        sync.Mutex
	bySession map[conversation.Key]int
}

const (
	shrinkTo   = 0.6    // factor by which a refused budget shrinks
	maxBudgets = 10_000 // sessions that are remembered
)

// Of returns the budget with which the next run of a session begins, at most most.
func (b *Budgets) Of(key conversation.Key, most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if budget, known := b.bySession[key]; known {
		return min(budget, most)
	}
	return most
}

// Used records the budget with which a run of the session has ended. The next run
// begins one step above it.
func (b *Budgets) Used(key conversation.Key, budget, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if budget = int(float64(budget) / shrinkTo); budget >= most {
		delete(b.bySession, key)
		return
	}
	if b.bySession == nil || len(b.bySession) >= maxBudgets {
		b.bySession = map[conversation.Key]int{}
	}
	b.bySession[key] = budget
}
