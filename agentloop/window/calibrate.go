package window

import (
	"sync"

	"parley/conversation"
)

// Calibrations holds the calibrations of models by their names.
type Calibrations struct {
	mu      sync.Mutex
	byModel map[string]*Calibration
}

// Of returns the calibration of a model.
func (c *Calibrations) Of(model string) *Calibration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byModel[model]; known != nil {
		return known
	}
	if c.byModel == nil || len(c.byModel) >= maxModels {
		c.byModel = map[string]*Calibration{}
	}
	c.byModel[model] = &Calibration{}
	return c.byModel[model]
}

// Calibration learns how many tokens a model's server counts for one that the gateway
// counts. They differ: servers frame messages by templates of their own, and many
// models have another vocabulary than the counter.
type Calibration struct {
	mu    sync.Mutex
	ratio float64 // the server's count divided by the gateway's; 0 = not known yet
}

const (
	leastCounted = 200 // fewest tokens of a list to learn from: in a shorter one, the frame weighs more than the words
	maxRatio     = 2.0 // no tokenizer in use counts more than twice the tokens of another
	newestWeight = 0.2 // weight of the newest ratio in the moving average
	maxModels    = 100 // models whose ratio is remembered
)

// Learn compares the tokens of a list as the gateway has counted them and as the
// server has reported them. A server that does not count reports 0.
func (c *Calibration) Learn(counted, reported int) {
	if counted < leastCounted || reported <= 0 {
		return
	}
	// A ratio below 1 is not believed: some servers report only the tokens that they
	// did not have in a cache.
	ratio := min(max(float64(reported)/float64(counted), 1), maxRatio)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ratio > 0 {
		ratio = c.ratio + (ratio-c.ratio)*newestWeight
	}
	c.ratio = ratio
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
// to run. Each is of one session, since a user may have brought about the refusal, and of
// one model.
type Budgets struct {
	mu   sync.Mutex
	byID map[budgetID]int
}

type budgetID struct {
	session conversation.Key
	model   string
}

const (
	shrinkTo   = 0.6    // factor by which a refused budget shrinks
	maxBudgets = 10_000 // sessions with their models that are remembered
)

// Of returns the budget with which the next run of a session begins, at most most.
func (b *Budgets) Of(key conversation.Key, model string, most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if budget, known := b.byID[budgetID{key, model}]; known {
		return min(budget, most)
	}
	return most
}

// Used records the budget with which a run of the session has ended. The next run
// begins one step above it.
func (b *Budgets) Used(key conversation.Key, model string, budget, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if budget = int(float64(budget) / shrinkTo); budget >= most {
		delete(b.byID, budgetID{key, model})
		return
	}
	if b.byID == nil || len(b.byID) >= maxBudgets {
		b.byID = map[budgetID]int{}
	}
	b.byID[budgetID{key, model}] = budget
}
