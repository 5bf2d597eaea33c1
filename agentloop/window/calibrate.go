package window

import (
	"sync"

	"parley/conversation"
)

// Calibration is how many tokens the server counts for one of ours. Servers
// frame messages by templates of their own, and many models have other
// vocabularies than the counter.
type Calibration struct {
	mu     sync.Mutex
	ratios map[string]float64 // by the model's name, as the server says it
	ratio  float64            // of the model that answered last; 0 = nothing is known
}

const (
	leastCounted = 200 // Tokens: in a shorter list the frame says more than the words
	maxRatio     = 2.0 // no tokenizer in use splits that much finer
	newestWeight = 0.2 // of what is learned anew, against all that was learned before
	maxModels    = 100 // remembered
)

// Learn takes in what a list had by our count and by the server's. 0 is what a
// server reports that does not count.
func (c *Calibration) Learn(model string, counted, reported int) {
	if counted < leastCounted || reported <= 0 {
		return
	}
	// What is counted too high is left so: some servers report only the tokens
	// that they did not have in a cache.
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

// Budget is how many of our tokens make so many of the server's.
func (c *Calibration) Budget(tokens int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ratio == 0 {
		return tokens
	}
	return max(int(float64(tokens)/c.ratio), min(tokens, MinBudget))
}

// Budgets are what sessions may send after the model's server has refused more,
// so that a message which is too long does not have every later one refused
// first. They grow again from run to run. Each is of one session alone, since a
// user may have brought about the refusal.
type Budgets struct {
	mu        sync.Mutex
	bySession map[conversation.Key]int
}

const (
	shrinkTo   = 0.6    // of a budget that was refused
	maxBudgets = 10_000 // sessions that are remembered
)

// Of is the budget with which a run of the session begins.
func (b *Budgets) Of(key conversation.Key, most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if budget, known := b.bySession[key]; known {
		return min(budget, most)
	}
	return most
}

// Used takes in the budget with which a run of the session has ended: the next
// one begins a step above it.
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
