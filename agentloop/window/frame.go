package window

import (
	"slices"
	"strings"
	"sync"

	"parley/llm"
	"parley/tools"
)

// replyTokens is what every list costs beside its messages, since each reply is primed
// with them, by the OpenAI cookbook ("How to count tokens with tiktoken").
const replyTokens = 3

// The notices about messages that are left out. With its number, each has at most noticeTokens tokens.
const (
	notice       = "[%d earlier messages of this conversation are not shown.]" // below the system prompt
	turnNotice   = "[%d earlier messages of this turn are not shown.]"         // in the note
	noticeTokens = 25
)

// explanation tells the model what a note is, and how to use recall and the session
// state, where it has these tools.
func explanation(registry *tools.Registry) string {
	var b strings.Builder
	b.WriteString("\n\n" + llm.NoteExplained)
	if registry.Has(tools.RecallName) {
		b.WriteString("\n\nYou are shown the newest part of this conversation. All of it is kept: look up what is not shown with " +
			tools.RecallName + " before you say that you don't know it.")
	}
	if registry.Has(tools.SessionStateName) {
		b.WriteString("\n\nThe session state in that note is kept for you. When somebody sets a rule or decides something, record it at once with " +
			tools.SessionStateName + ".")
	}
	return b.String()
}

// Frame is what every call begins with: the system prompt and the tools.
type Frame struct {
	System string // the system prompt, with an explanation of the tools
	Tools  []llm.Tool

	counter     Counter
	prompt      string     // the operator's system prompt alone
	explanation string     // what notes and tools are, for the model
	tokens      func() int // counted when first needed, since the counter loads a large vocabulary
}

// NewFrame returns the frame of a prompt and tools.
func NewFrame(counter Counter, prompt string, registry *tools.Registry) *Frame {
	f := &Frame{counter: counter, prompt: prompt, explanation: explanation(registry)}
	f.System = f.prompt + f.explanation
	for _, t := range registry.List() {
		f.Tools = append(f.Tools, llm.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	// In whatever order servers of tools have answered, each call begins with the same bytes.
	slices.SortFunc(f.Tools, func(a, b llm.Tool) int { return strings.Compare(a.Name, b.Name) })
	f.tokens = sync.OnceValue(func() int {
		system := llm.Message{Role: "system", Content: f.System}
		return counter.Message(system) + 2*noticeTokens + noteMarks + counter.Tools(f.Tools) + replyTokens
	})
	return f
}

// Tokens returns what every list costs besides its messages.
func (f *Frame) Tokens() int { return f.tokens() }

// Room is how the tokens of a call are shared.
type Room struct {
	Budget int // what the call may have
	Prompt int // the operator's system prompt
	Tools  int // the tools and the frame

	ToolCount int
}

// leastRoom is the minimum number of tokens for messages in a call, beside the frame: a question and a little history.
const leastRoom = 3 * MinQuestion

// Lacks returns by how many tokens the budget is too small: however far the prompt is cut, the rest is not enough for a question
// and its answer. It is 0 or less where there is room.
func (r Room) Lacks() int { return r.Tools + min(r.Prompt, minCut) + leastRoom - r.Budget }

// IsCut reports whether the system prompt is so long that it is sent cut.
func (r Room) IsCut() bool { return r.Prompt > minCut && r.Prompt+r.Tools > r.Budget/2 }

// Room returns how a budget is shared. It counts no tokens where the length in bytes proves that the frame is small, since
// counting loads the vocabulary.
func (f *Frame) Room(budget int) Room {
	bytes := len(f.System)
	for _, t := range f.Tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if 4*bytes < budget && budget > 2*leastRoom { // a token is at least a byte, and the frame has few
		return Room{Budget: budget}
	}
	prompt := f.counter.Text(f.prompt)
	return Room{budget, prompt, f.Tokens() - prompt, len(f.Tools)}
}
