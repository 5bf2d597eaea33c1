package agentloop

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"parley/conversation"
	"parley/llm"
	"parley/tools"
)

// window is what a run sends to the model: the system prompt with the state and
// the summary of the conversation, a notice of what is not shown, the newest
// whole exchanges that fit, and the current exchange. Nothing in it changes what
// is stored.
type window struct {
	counter Counter
	system  string
	told    string // of this conversation, below the system prompt
	hint    string // the end of told, "" when there is none
	fixed   int    // tokens of all that is neither told nor a message
	history []conversation.Message
	older   int64   // messages before history that are not loaded
	current []entry // the waiting messages and the tool rounds so far
}

// entry is a message of the list with its tokens, which are counted once.
type entry struct {
	llm.Message
	tokens int
	finish conversation.FinishReason // of an answer: why it is not whole
}

func (l *loop) entry(m llm.Message) entry { return entry{Message: m, tokens: l.Counter.Message(m)} }

func (l *loop) window(turn conversation.Turn, users []conversation.Message) window {
	w := window{
		counter: l.Counter,
		system:  l.system,
		fixed:   l.fixedTokens(),
		history: turn.History,
		older:   turn.Older,
	}
	for _, text := range turn.Conversation.State.Instructions {
		w.told += "\n\n" + text
	}
	if text := summaryText(turn.Summary); text != "" {
		w.history = uncovered(turn.History, turn.Summary)
		w.older = max(0, turn.Older-turn.Summary.Through)
		w.told += text
	}
	if place := oneLine(turn.Place, 200); place != "" {
		w.told += fmt.Sprintf("\n\n[This conversation takes place in %s.]", place)
	}
	if state := stateText(turn.Conversation, focusOf(turn.History, users), l.Counter, min(l.StateBudget, l.Budget/4)); state != "" {
		w.told += "\n\n[Session state]\n" + state
	}
	if w.hint = l.hint(users); w.hint != "" {
		w.told += "\n\n" + w.hint
	}
	for i := range users {
		w.current = append(w.current, entry{Message: toModel(&users[i]), tokens: users[i].Tokens})
	}
	return w
}

// replyTokens prime every answer, by the count of the OpenAI cookbook ("How to
// count tokens with tiktoken").
const replyTokens = 3

// notice stands at the end of the system prompt when there is more than is
// shown. A number has at most noticeTokens with it.
const (
	notice       = "[%d earlier messages of this conversation are not shown.]"
	noticeTokens = 25
)

// explanation tells the model how it remembers, as far as it has the tools.
func explanation(registry *tools.Registry) string {
	var b strings.Builder
	if registry.Has(tools.RecallName) {
		b.WriteString("\n\nYou are shown the newest part of this conversation. All of it is kept: look up what is not shown with " +
			tools.RecallName + " before you say that you don't know it.")
	}
	if registry.Has(tools.SessionStateName) {
		b.WriteString("\n\nThe session state below is kept for you. When somebody sets a rule or decides something, record it at once with " +
			tools.SessionStateName + ".")
	}
	return b.String()
}

// countFixed is what every list of this router costs before its first message.
func (r *Router) countFixed() int {
	system := llm.Message{Role: "system", Content: r.SystemPrompt + explanation(r.Tools)}
	return r.Counter.Message(system) + noticeTokens + r.Counter.Tools(r.tools) + replyTokens
}

// CheckPrompt tells the operator when the system prompt is so long that it is
// sent cut, in words that name the keys to change. An ordinary one is not
// counted, which would load the vocabulary.
func (r *Router) CheckPrompt() error {
	half := r.Budget / 2
	bytes := len(r.system)
	for _, t := range r.tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if 2*bytes < half { // a token is at least a byte, and the frame has few
		return nil
	}
	fixed := r.fixedTokens()
	if fixed <= half {
		return nil
	}
	prompt := r.Counter.Text(r.SystemPrompt)
	return fmt.Errorf("agent.system_prompt is too long and is sent cut: it has %d tokens, and with %d for the tools and the frame "+
		"at most %d may be used, half of what one call may have; shorten it, or raise conversation.max_tokens or llm.context_window",
		prompt, fixed-prompt, half)
}

// listing is what one call is sent.
type listing struct {
	messages []llm.Message // the system prompt first
	left     int64         // messages of the conversation that are not among them
	tokens   int           // that it takes of the budget
	exact    bool          // else a part of tokens is estimated
	cramped  bool          // there is no room for a meaningful part of the question: it makes no sense to send it
}

// build gives the list for one call, within the budget by the counter's count.
func (w window) build(budget int) []llm.Message {
	return w.counted(budget).messages
}

// counted is the list with its tokens.
func (w window) counted(budget int) listing {
	l := w.fill(budget, w.counter.Text(w.told))
	l.exact = true
	return l
}

// bytesPerToken is the usual length of a token of English, by which what need
// not be exact is estimated:
// https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them
const bytesPerToken = 4

// list is the list for one call. What is told changes with every run, and is
// only estimated where it makes no difference.
func (w window) list(budget int) listing {
	most := len(w.told) // a token is at least a byte
	if !w.isRoomy(budget, most) {
		return w.counted(budget)
	}
	l := w.fill(budget, most)
	l.tokens -= most - most/bytesPerToken
	return l
}

// isRoomy says that all fits, with so many tokens for what is told.
func (w window) isRoomy(budget, told int) bool {
	if w.fixed+told > budget/2 {
		return false
	}
	sum := w.fixed + told
	for i := range w.history {
		sum += w.history[i].Tokens
	}
	for _, e := range w.current {
		sum += e.tokens
	}
	return sum <= budget
}

// fill is the list with so many tokens for what is told.
func (w window) fill(budget, told int) listing {
	w.system, w.fixed = w.system+w.told, w.fixed+told
	system, room := w.fitSystem(budget)
	current, cramped := w.fit(w.current, room)
	left := w.older + int64(len(w.current)-len(current))
	for _, e := range current {
		room -= e.tokens
	}
	shown, taken := w.newest(room)
	left += int64(len(w.history) - len(shown))

	messages := make([]llm.Message, 0, 1+len(shown)+len(current))
	messages = append(messages, withNotice(system, left))
	messages = append(messages, shown...)
	for _, e := range current {
		messages = append(messages, e.Message)
	}
	return listing{messages: messages, left: left, tokens: budget - room + taken, cramped: cramped}
}

// fitSystem gives the system prompt and what is left of the budget for the
// conversation. A prompt that would leave less than half is cut: the question
// matters more.
func (w window) fitSystem(budget int) (system llm.Message, room int) {
	system = llm.Message{Role: "system", Content: w.system}
	room = budget - w.fixed
	if lacking := budget/2 - room; lacking > 0 {
		tokens := w.counter.Message(system)
		if limit := max(tokens-lacking, minCut); limit < tokens {
			system = w.cut(system, limit)
			room += tokens - w.counter.Message(system)
		}
	}
	return system, room
}

// withNotice says at the end of the system prompt how many messages are not
// shown.
func withNotice(system llm.Message, hidden int64) llm.Message {
	if hidden > 0 {
		system.Content = strings.TrimSpace(fmt.Sprintf("%s\n\n"+notice, system.Content, hidden))
	}
	return system
}

// newest gives the newest whole exchanges of the history that fit into the
// room, and how much of it they take. A message that would take more than half
// of it is cut in the middle.
func (w window) newest(room int) (shown []llm.Message, taken int) {
	all, largest := room, room/2
	backwards := make([]llm.Message, 0, min(len(w.history), 128))
	whole := 0
	for i := len(w.history) - 1; i >= 0; i-- {
		m, tokens := toModel(&w.history[i]), w.history[i].Tokens
		if tokens > largest {
			m = w.cut(m, largest)
			tokens = w.counter.Message(m)
		}
		if room -= tokens; room < 0 {
			if whole == 0 {
				return w.cutExchange(all)
			}
			break
		}
		backwards = append(backwards, m)
		if i == 0 || conversation.StartsExchange(&w.history[i-1], &w.history[i]) {
			whole, taken = len(backwards), all-room
		}
	}
	shown = backwards[:whole]
	slices.Reverse(shown)
	return shown, taken
}

// cutExchange is the newest exchange of the history, cut to fit the room: to
// know a part of what was just said is better than nothing of it.
func (w window) cutExchange(room int) (shown []llm.Message, taken int) {
	if room < minCut {
		return nil, 0
	}
	var newest []entry
	last := lastExchange(w.history)
	for i := range last {
		newest = append(newest, entry{Message: toModel(&last[i]), tokens: last[i].Tokens})
	}
	fitted, _ := w.fit(newest, room)
	shown = make([]llm.Message, 0, len(fitted))
	for _, e := range fitted {
		if taken += e.tokens; taken > room {
			return nil, 0
		}
		shown = append(shown, e.Message)
	}
	return shown, taken
}

// fit makes the current exchange fit into the room: its longest messages are
// cut, and when there are too many for that, the oldest are left out, but never
// the newest question nor the results that came last. cramped says that even so
// there is no room for a meaningful part of the question.
func (w window) fit(current []entry, room int) (fitted []entry, cramped bool) {
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

// newestQuestion is the place of the newest message of the user, -1 for none.
func newestQuestion(messages []entry) int {
	for i, e := range slices.Backward(messages) {
		if e.Role == "user" {
			return i
		}
	}
	return -1
}

// floorOf is how many tokens of a question are shown at least, 0 for none.
func floorOf(messages []entry, question int) int {
	if question < 0 {
		return 0
	}
	return min(messages[question].tokens, minQuestion)
}

// cutTo cuts the messages that have more tokens than the limit.
func (w window) cutTo(messages []entry, limit int) []entry {
	messages = slices.Clone(messages)
	for i, e := range messages {
		if e.tokens > limit {
			cut := w.cut(e.Message, limit)
			messages[i] = entry{Message: cut, tokens: w.counter.Message(cut)}
		}
	}
	return messages
}

// firstToKeep is how many of the oldest messages are left out so that the others
// fit when they are cut. With last, the newest unit stays in any case.
func firstToKeep(messages []entry, room int, last bool) int {
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

// firstOfSome is how many of the oldest messages have no room even when all are
// cut as short as can be: a program may have appended thousands behind each other.
func firstOfSome(messages []entry, room int, last bool) int {
	most := len(messages)
	if last {
		for most = max(0, most-1); most > 0 && messages[most].Role == "tool"; most-- {
		}
	}
	first := len(messages)
	for first > 0 && room >= min(messages[first-1].tokens, minCut) {
		first--
		room -= min(messages[first].tokens, minCut)
	}
	for first < most && messages[first].Role == "tool" {
		first++
	}
	return min(first, most)
}

// minCut is the least number of tokens to which a message is cut; less would
// say nothing but that something was cut. The newest question keeps minQuestion,
// a few sentences from its beginning and its end.
const (
	minCut      = 40
	minQuestion = 100
)

// firstUnit is how many messages at the front go together: a user message, or
// an assistant's calls with their results.
func firstUnit(messages []entry) int {
	n := 1
	for n < len(messages) && messages[n].Role == "tool" {
		n++
	}
	return n
}

// level is the greatest limit for which the messages, each cut to it, take at
// most the room.
func level(messages []entry, room int) int {
	bySize := slices.SortedFunc(slices.Values(messages), func(a, b entry) int { return a.tokens - b.tokens })
	for i, e := range bySize {
		share := room / (len(bySize) - i)
		if e.tokens > share {
			return share
		}
		room -= e.tokens
	}
	return math.MaxInt
}

const cutNotice = "\n[… cut: too long to be shown whole …]\n"

// cut shortens a message in the middle to at most limit tokens, with a notice.
func (w window) cut(m llm.Message, limit int) llm.Message {
	if len(m.Images) > 0 {
		m.Images, m.Content = nil, join(m.Content, "[images not shown: there is no room for them]")
		if w.counter.Message(m) <= limit {
			return m
		}
	}
	m.ToolCalls = w.cutArguments(m.ToolCalls, limit)
	content := m.Content
	m.Content = cutNotice
	for room := limit - w.counter.Message(m); room > 0; {
		head, tail := w.counter.Cut(content, room)
		m.Content = head + cutNotice + tail
		over := w.counter.Message(m) - limit
		if over <= 0 {
			return m
		}
		room -= min(over, (room+1)/2) // a huge text is counted at its most, so over may be more than there is
	}
	m.Content = "[cut]"
	return m
}

// cutArguments replaces arguments that alone would take half of the limit, by
// ones that are still valid JSON.
func (w window) cutArguments(calls []llm.ToolCall, limit int) []llm.ToolCall {
	shown := slices.Clone(calls)
	for i, call := range shown {
		share := limit / (2 * len(calls))
		if len(call.Arguments) > share && w.counter.Text(call.Arguments) > share { // a token is at least a byte
			shown[i].Arguments = `{"cut":"too long to be shown"}`
		}
	}
	return shown
}

// toModel is a row as the model is shown it. In groups the sender's name stands
// before the text.
func toModel(m *conversation.Message) llm.Message {
	shown := llm.Message{
		Role:       string(m.Role),
		Content:    m.Content,
		Name:       m.ToolName,
		ToolCallID: m.ToolCallID,
	}
	for _, image := range m.Images {
		shown.Images = append(shown.Images, llm.Image{MediaType: image.MediaType, Data: image.Data})
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
