package llm

import (
	"crypto/rand"
	"encoding/json"
	"strings"
)

// maxCallID is the longest id of a call that OpenAI takes back. Other servers
// make longer ones, and a conversation may move from one to the other.
const maxCallID = 40

// callList puts the calls of one answer together from their deltas.
//
// The API's rule is: the first delta of a call has index, id and name, the
// later ones have the index and a piece of the arguments. Servers in the wild
// leave out the index or the id, give every call the same index or id, give
// every delta of one call a new id, or repeat the name. So a delta is taken
// as the start of a new call only when it can't well be anything else.
type callList struct {
	calls   []*call
	byIndex map[int]*call
}

type call struct {
	id   string
	name string
	args strings.Builder
}

func (l *callList) add(d toolCallDelta) {
	c := l.find(d)
	if c == nil || c.endedBefore(d) {
		c = &call{}
		l.calls = append(l.calls, c)
		if d.Index != nil {
			if l.byIndex == nil {
				l.byIndex = make(map[int]*call)
			}
			l.byIndex[*d.Index] = c
		}
	}
	c.add(d)
}

// find is the call that the delta may belong to, nil when it begins one.
func (l *callList) find(d toolCallDelta) *call {
	if d.Index != nil {
		return l.byIndex[*d.Index]
	}
	if d.ID != "" {
		for i := len(l.calls) - 1; i >= 0; i-- {
			if l.calls[i].id == d.ID {
				return l.calls[i]
			}
		}
		if d.Function.Name != "" {
			return nil
		}
	}
	if len(l.calls) == 0 {
		return nil
	}
	return l.calls[len(l.calls)-1]
}

// endedBefore says whether the delta, though it points to this call, must be
// the start of the next one.
func (c *call) endedBefore(d toolCallDelta) bool {
	name, args := d.Function.Name, string(d.Function.Arguments)
	switch {
	case name == "" || c.name == "":
		return false // a piece of the arguments, whatever its id
	case d.ID != "" && c.id != "" && d.ID != c.id:
		return true
	case c.args.Len() == 0:
		return name == c.name && args == "" && d.ID == "" && d.Index == nil // two calls without arguments
	case name != c.name:
		return true
	}
	// The name again: the next call, if this one is complete and more is said.
	return args != "" && json.Valid([]byte(c.args.String())) && (d.ID == "" || args != c.args.String())
}

func (c *call) add(d toolCallDelta) {
	if c.id == "" {
		c.id = d.ID
	}
	name, args := d.Function.Name, string(d.Function.Arguments)
	if name != c.name { // else it is repeated
		c.name += name
	}
	if d.ID != "" && args == c.args.String() && json.Valid([]byte(args)) {
		return // the whole call repeated
	}
	c.args.WriteString(args)
}

// toolCalls are the calls, each with an id of its own. Without a name there is
// nothing to call; without arguments, they are the empty object.
func (l *callList) toolCalls() []ToolCall {
	var calls []ToolCall
	taken := make(map[string]bool, len(l.calls))
	for _, c := range l.calls {
		if c.name == "" {
			continue
		}
		id := c.id
		if id == "" || len(id) > maxCallID || taken[id] {
			id = "call_" + rand.Text()
		}
		taken[id] = true
		args := c.args.String()
		if strings.TrimSpace(args) == "" {
			args = "{}"
		}
		calls = append(calls, ToolCall{ID: id, Name: c.name, Arguments: args})
	}
	return calls
}
