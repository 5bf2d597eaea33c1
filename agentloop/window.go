package agentloop

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"parley/conversation"
	"parley/llm"
)

// window is what a run sends to the model: the system prompt, a notice of what
// is not shown, the newest whole exchanges that fit, and the current exchange.
// Nothing in it changes what is stored.
type window struct {
	counter Counter
	system  string
	tools   int // tokens of the tool definitions
	history []conversation.Message
	older   int64         // messages before history that are not loaded
	current []llm.Message // the waiting messages and the tool rounds so far
}

func (l *loop) window(turn conversation.Turn, users []conversation.Message) window {
	w := window{
		counter: l.Counter,
		system:  l.SystemPrompt,
		tools:   l.Counter.Tools(l.Router.tools),
		history: turn.History,
		older:   turn.Older,
	}
	for _, m := range users {
		w.current = append(w.current, toModel(m))
	}
	return w
}

// replyTokens prime every answer, by the count of the OpenAI cookbook ("How to
// count tokens with tiktoken").
const replyTokens = 3

// build gives the list for one call, within the budget by the counter's count.
func (w window) build(budget int) []llm.Message {
	all := w.older + int64(len(w.history)+len(w.current))
	room := budget - replyTokens - w.tools - w.counter.Message(w.systemMessage(all)) // the longest notice
	current := w.fit(w.current, room)
	hidden := w.older + int64(len(w.current)-len(current))
	shown := w.newest(room - w.count(current))
	hidden += int64(len(w.history) - len(shown))

	list := make([]llm.Message, 0, 1+len(shown)+len(current))
	list = append(list, w.systemMessage(hidden))
	list = append(list, shown...)
	return append(list, current...)
}

// systemMessage says at its end how many messages are not shown.
func (w window) systemMessage(hidden int64) llm.Message {
	text := w.system
	if hidden > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s\n\n[%d earlier messages of this conversation are not shown.]", text, hidden))
	}
	return llm.Message{Role: "system", Content: text}
}

// newest gives the newest whole exchanges of the history that fit into the
// room. A message that would take more than half of it is cut in the middle.
func (w window) newest(room int) []llm.Message {
	largest := room / 2
	var backwards []llm.Message
	whole := 0
	for i := len(w.history) - 1; i >= 0; i-- {
		m, tokens := toModel(w.history[i]), w.history[i].Tokens
		if tokens > largest {
			m = w.cut(m, largest)
			tokens = w.counter.Message(m)
		}
		if room -= tokens; room < 0 {
			break
		}
		backwards = append(backwards, m)
		if i == 0 || conversation.StartsExchange(&w.history[i-1], &w.history[i]) {
			whole = len(backwards)
		}
	}
	shown := backwards[:whole]
	slices.Reverse(shown)
	return shown
}

// fit makes the current exchange fit into the room: its longest messages are
// cut, and when there are too many for that, the oldest are left out.
func (w window) fit(current []llm.Message, room int) []llm.Message {
	tokens := make([]int, len(current))
	sum := 0
	for i, m := range current {
		tokens[i] = w.counter.Message(m)
		sum += tokens[i]
	}
	if sum <= room {
		return current
	}
	limit := level(tokens, room)
	for limit < minCut {
		next := firstUnit(current)
		if next == len(current) {
			break
		}
		current, tokens = current[next:], tokens[next:]
		limit = level(tokens, room)
	}
	fitted := make([]llm.Message, len(current))
	for i, m := range current {
		fitted[i] = m
		if tokens[i] > limit {
			fitted[i] = w.cut(m, limit)
		}
	}
	return fitted
}

// minCut is the least number of tokens to which a message is cut; less would
// say nothing but that something was cut.
const minCut = 40

// firstUnit is how many messages at the front go together: a user message, or
// an assistant's calls with their results.
func firstUnit(messages []llm.Message) int {
	n := 1
	for n < len(messages) && messages[n].Role == "tool" {
		n++
	}
	return n
}

// level is the greatest limit for which the counts, each cut to it, add up to
// at most room.
func level(counts []int, room int) int {
	sorted := slices.Sorted(slices.Values(counts))
	for i, count := range sorted {
		share := room / (len(sorted) - i)
		if count > share {
			return share
		}
		room -= count
	}
	return math.MaxInt
}

// cut shortens a message in the middle to at most limit tokens, with a notice.
func (w window) cut(m llm.Message, limit int) llm.Message {
	m.ToolCalls = w.cutArguments(m.ToolCalls, limit)
	content, notice := m.Content, "\n[… cut: too long to be shown whole …]\n"
	m.Content = notice
	for room := limit - w.counter.Message(m); room > 0; {
		head, tail := w.counter.Cut(content, room)
		m.Content = head + notice + tail
		over := w.counter.Message(m) - limit
		if over <= 0 {
			return m
		}
		room -= over
	}
	m.Content = "[cut]"
	return m
}

// cutArguments replaces arguments that alone would take half of the limit, by
// ones that are still valid JSON.
func (w window) cutArguments(calls []llm.ToolCall, limit int) []llm.ToolCall {
	shown := slices.Clone(calls)
	for i, call := range shown {
		if w.counter.Text(call.Arguments) > limit/(2*len(calls)) {
			shown[i].Arguments = `{"cut":"too long to be shown"}`
		}
	}
	return shown
}

func (w window) count(messages []llm.Message) int {
	sum := 0
	for _, m := range messages {
		sum += w.counter.Message(m)
	}
	return sum
}

// toModel is a row as the model is shown it. In groups the sender's name stands
// before the text.
func toModel(m conversation.Message) llm.Message {
	shown := llm.Message{
		Role:       string(m.Role),
		Content:    m.Content,
		Name:       m.ToolName,
		ToolCallID: m.ToolCallID,
	}
	if m.Sender != (conversation.Sender{}) {
		shown.Content = senderName(m.Sender) + ": " + m.Content
	}
	for _, call := range m.ToolCalls {
		shown.ToolCalls = append(shown.ToolCalls, llm.ToolCall(call))
	}
	return shown
}

func senderName(s conversation.Sender) string {
	if name := oneLine(s.Name, 64); name != "" {
		return name
	}
	return "user " + oneLine(s.ID, 64)
}
