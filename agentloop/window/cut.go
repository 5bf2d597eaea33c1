package window

import (
	"math"
	"slices"
	"strings"

	"parley/llm"
)

// fitSystem returns the system prompt with the text below it, and the tokens of the frame with
// both. told is the number of tokens of that text. If they would leave less than half of the
// budget, the operator's prompt is cut, since the question matters more; if that is not enough,
// so are the instructions of programs and the summary. The gateway's own explanation stays
// whole, or the model would not know what a note is.
func (w Window) fitSystem(budget, told int) (system llm.Message, fixed int) {
	prompt, below := w.prompt, w.below()
	join := func() llm.Message {
		return llm.Message{Role: "system", Content: strings.TrimSpace(prompt + w.explanation + below)}
	}
	system, fixed = join(), w.fixed+told
	for _, text := range []*string{&prompt, &below} {
		if lacking := fixed - (budget - budget/2); lacking > 0 {
			tokens := w.counter.Message(system)
			*text = w.cutBy(*text, lacking)
			system = join()
			fixed -= tokens - w.counter.Message(system)
		}
	}
	return system, fixed
}

// cutBy removes a number of tokens from the middle of a text, but leaves at least minCut.
func (w Window) cutBy(text string, tokens int) string {
	m := llm.Message{Role: "system", Content: text}
	if limit := max(w.counter.Message(m)-tokens, minCut); limit < w.counter.Message(m) {
		return w.cut(m, limit).Content
	}
	return text
}

// fit returns the current turn, cut to fit the room. It cuts the longest messages,
// and when there are too many for that, leaves out the oldest, but never the newest
// question or the latest results. cramped reports that there is no room for a
// meaningful part of the question.
func (w Window) fit(current []Entry, room int) (fitted []Entry, cramped bool) {
	asked := newestQuestion(current)
	if limit := level(current, room); limit >= minCut && limit >= floorOf(current, asked) {
		return w.cutTo(current, limit), false
	}
	if asked < 0 {
		kept := current[firstToKeep(current, room, true):]
		return w.cutTo(kept, level(kept, room)), false
	}
	floor := floorOf(current, asked)
	others := slices.Delete(slices.Clone(current), asked, asked+1)
	first := firstToKeep(others, room-floor, asked < len(current)-1)
	limit := level(others[first:], room-floor)
	question := min(floor, room)
	if both := level(slices.Insert(slices.Clone(others[first:]), 0, current[asked]), room); both > question {
		limit, question = both, both
	}
	before := max(asked, first)
	return slices.Concat(w.cutTo(others[first:before], limit), w.cutTo(current[asked:asked+1], question), w.cutTo(others[before:], limit)),
		question < floor
}

// newestQuestion returns the index of the newest message of the user, -1 for none.
func newestQuestion(messages []Entry) int {
	for i, e := range slices.Backward(messages) {
		if e.Role == "user" {
			return i
		}
	}
	return -1
}

// floorOf returns the least number of tokens of a question that are shown. question
// is its index, -1 for none.
func floorOf(messages []Entry, question int) int {
	if question < 0 {
		return 0
	}
	return min(messages[question].Tokens, MinQuestion)
}

// cutTo returns the messages with those cut that have more tokens than the limit.
func (w Window) cutTo(messages []Entry, limit int) []Entry {
	messages = slices.Clone(messages)
	for i, e := range messages {
		if e.Tokens > limit {
			cut := w.cut(e.Message, limit)
			messages[i] = Entry{Message: cut, Tokens: w.counter.Message(cut)}
		}
	}
	return messages
}

// firstToKeep returns how many of the oldest messages to leave out so that the others
// fit once they are cut. With last, the newest unit stays in any case.
func firstToKeep(messages []Entry, room int, last bool) int {
	first := firstOfSome(messages, room, last)
	for first < len(messages) && level(messages[first:], room) < minCut {
		next := first + firstUnit(messages[first:])
		if last && next == len(messages) {
			break
		}
		first = next
	}
	return first
}

// firstOfSome returns how many of the oldest messages have no room even when all are
// cut to minCut. A program may have appended thousands of messages to one turn;
// this leaves most of them out in one pass.
func firstOfSome(messages []Entry, room int, last bool) int {
	most := len(messages)
	if last {
		for most = max(0, most-1); most > 0 && messages[most].Role == "tool"; most-- {
		}
	}
	first := len(messages)
	for first > 0 && room >= min(messages[first-1].Tokens, minCut) {
		first--
		room -= min(messages[first].Tokens, minCut)
	}
	for first < most && messages[first].Role == "tool" {
		first++
	}
	return min(first, most)
}

// minCut is the least number of tokens to which a message is cut: with fewer, only
// the notice would be left. The newest question keeps at least MinQuestion, a few
// sentences from its beginning and its end.
const (
	minCut      = 40
	MinQuestion = 100
)

// firstUnit returns how many messages at the front belong together: one message, or
// an assistant's calls with their results.
func firstUnit(messages []Entry) int {
	n := 1
	for n < len(messages) && messages[n].Role == "tool" {
		n++
	}
	return n
}

// level returns the greatest number of tokens such that the messages, each cut to
// it, fit into the room.
func level(messages []Entry, room int) int {
	bySize := slices.SortedFunc(slices.Values(messages), func(a, b Entry) int { return a.Tokens - b.Tokens })
	for i, e := range bySize {
		share := room / (len(bySize) - i)
		if e.Tokens > share {
			return share
		}
		room -= e.Tokens
	}
	return math.MaxInt
}

// CutNotice stands in a text where its middle was cut out.
const CutNotice = "\n[… cut: too long to be shown whole …]\n"

// cut returns a message of at most limit tokens, with a notice in place of its middle.
func (w Window) cut(m llm.Message, limit int) llm.Message {
	if len(m.Images) > 0 {
		m.Images, m.Content = nil, withoutImages(m.Content)
		if w.counter.Message(m) <= limit {
			return m
		}
	}
	m.ToolCalls = w.cutArguments(m.ToolCalls, limit)
	content := m.Content
	m.Content = CutNotice
	for room := limit - w.counter.Message(m); room > 0; {
		head, tail := w.counter.Cut(content, room)
		m.Content = head + CutNotice + tail
		over := w.counter.Message(m) - limit
		if over <= 0 {
			return m
		}
		room -= min(over, (room+1)/2) // the count of a huge text is an upper bound, so over may be too large
	}
	m.Content = "[cut]"
	return m
}

// cutArguments replaces the arguments of calls that together would take more than
// half of the limit. What it puts there is valid JSON, too.
func (w Window) cutArguments(calls []llm.ToolCall, limit int) []llm.ToolCall {
	shown := slices.Clone(calls)
	for i, call := range shown {
		share := limit / (2 * len(calls))
		if len(call.Arguments) > share && w.counter.Text(call.Arguments) > share { // a token is at least a byte
			shown[i].Arguments = `{"cut":"too long to be shown"}`
		}
	}
	return shown
}

func withoutImages(text string) string {
	const notice = "[images not shown: there is no room for them]"
	if text == "" {
		return notice
	}
	return text + "\n" + notice
}
