package window

import "testing"

// Impossible token counts of a server make the window neither too small nor too large.
func TestImpossibleTokenCountsChangeTheBudgetLittle(t *testing.T) {
	t.Parallel()
	for name, reported := range map[string]int{"none": 0, "negative": -5, "of the cache": 3, "huge": 1 << 40} {
		var c Calibration
		for range 50 {
			c.Learn(1000, reported)
		}
		if got := c.Budget(1000); got > 1000 || got < 500 {
			t.Errorf("%s: of a budget of 1000 there are %d left", name, got)
		}
	}
	var c Calibration
	c.Learn(10, 1000)
	if got := c.Budget(1000); got != 1000 {
		t.Errorf("a short list has changed the budget to %d", got)
	}
}
