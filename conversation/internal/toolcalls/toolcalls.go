// Package toolcalls checks that each tool call is followed by its result, as the APIs of models
// require.
package toolcalls

import (
	"fmt"
	"slices"
)

// Call is a tool call of a message.
type Call struct{ ID, Name string }

// Checker checks messages one after the other. The zero value is ready.
type Checker struct {
	n    int      // how many messages were added or skipped
	open []string // the ids of calls whose results have not come
}

// Skip counts a message that the model does not see.
func (c *Checker) Skip() { c.n++ }

// Add checks the next message. If isResult is true, it is the result of the call with the id resultOf;
// otherwise it is a message that asks for calls, or for none.
func (c *Checker) Add(isResult bool, resultOf string, calls []Call) error {
	c.n++
	at := slices.Index(c.open, resultOf)
	switch {
	case isResult && at < 0:
		return fmt.Errorf("message %d is the result of the tool call %q, which does not stand before it", c.n, resultOf)
	case isResult:
		c.open = slices.Delete(c.open, at, at+1)
	case len(c.open) > 0:
		return fmt.Errorf("message %d stands before the result of the tool call %q", c.n, c.open[0])
	}
	for _, call := range calls {
		if call.ID == "" || call.Name == "" || slices.Contains(c.open, call.ID) {
			return fmt.Errorf("message %d has a tool call without a name or an id of its own", c.n)
		}
		c.open = append(c.open, call.ID)
	}
	return nil
}

// End checks that no result is missing after the last message.
func (c *Checker) End() error {
	if len(c.open) > 0 {
		return fmt.Errorf("the result of the tool call %q is missing", c.open[0])
	}
	return nil
}
