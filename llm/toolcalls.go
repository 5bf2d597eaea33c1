package llm

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxCallID is the longest ID of a call that OpenAI takes. Other servers make longer
// ones, and a conversation may move from one server to another.
const maxCallID = 40

// wireCallID returns the ID of a call as it is sent: one that is too long, of an imported conversation or a program, is replaced by
// its hash.
func wireCallID(id string) string {
	if len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// maxToolName is the longest name of a tool that OpenAI takes.
const maxToolName = 64

var notInToolNames = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// toolName returns the name of a tool that a model calls, in a form that servers take: they
// refuse to be sent a made-up one with other characters, and with it the whole conversation. The name of
// an offered tool stays: the server takes it, and a program knows its tool by it.
func toolName(called string, offered []Tool) string {
	name := notInToolNames.ReplaceAllString(called, "_")
	name = name[:min(len(name), maxToolName)]
	if name != called && slices.ContainsFunc(offered, func(t Tool) bool { return t.Name == called }) {
		return called
	}
	return name
}

var notInWriterNames = regexp.MustCompile(`[\s\pZ\pC<|\\/>]+`)

// writerName returns the name of who has written a message, in the form that OpenAI takes: ^[^\s<|\\/>]+$, at
// most 64 characters.
func writerName(name string) string {
	name = notInWriterNames.ReplaceAllString(clean(name), "_")
	return string([]rune(name)[:min(utf8.RuneCountInString(name), maxToolName)])
}

// callList assembles the tool calls of one answer from their deltas.
//
// By the API, the first delta of a call has index, ID and name, and the later ones have
// the index and a piece of the arguments. Some servers leave out the index or the ID,
// give all calls the same index or ID, give each delta of one call a new ID, or repeat
// the name. So a delta starts a new call only when it can hardly be anything else.
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

// find returns the call that the delta may belong to, nil when it starts a new one.
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

// endedBefore reports whether a delta that refers to this call must be the start of the
// next one.
func (c *call) endedBefore(d toolCallDelta) bool {
	name, args := d.Function.Name, string(d.Function.Arguments)
	switch {
	case name == "" || c.name == "":
		return false // a piece of the arguments, whatever its ID
	case d.ID != "" && c.id != "" && d.ID != c.id:
		return true
	case c.args.Len() == 0:
		return name == c.name && args == "" && d.ID == "" && d.Index == nil // two calls without arguments
	case name != c.name:
		return true
	}
	// The same name again starts the next call if this one is complete.
	return args != "" && json.Valid([]byte(c.args.String())) && (d.ID == "" || args != c.args.String())
}

func (c *call) add(d toolCallDelta) {
	if c.id == "" {
		c.id = d.ID
	}
	name, args := d.Function.Name, string(d.Function.Arguments)
	if name != c.name { // else the name is repeated
		c.name += name
	}
	if d.ID != "" && args == c.args.String() && json.Valid([]byte(args)) {
		return // the whole call is repeated
	}
	c.args.WriteString(args)
}

// toolCalls returns the calls, each with a unique ID that can be stored. It drops calls without
// a name, and gives those without arguments an empty object. offered are the tools of the request.
func (l *callList) toolCalls(offered []Tool) []ToolCall {
	var calls []ToolCall
	taken := make(map[string]bool, len(l.calls))
	for _, c := range l.calls {
		if c.name == "" {
			continue
		}
		id := clean(c.id)
		if id == "" || len(id) > maxCallID || taken[id] {
			id = "call_" + rand.Text()
		}
		taken[id] = true
		args := c.args.String()
		if strings.TrimSpace(args) == "" {
			args = "{}"
		}
		calls = append(calls, ToolCall{ID: id, Name: toolName(c.name, offered), Arguments: args})
	}
	return calls
}
