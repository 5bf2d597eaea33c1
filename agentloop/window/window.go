// Package window decides what one model call is sent: the system prompt with the
// instructions and the summary of the conversation, the newest whole turns that fit
// into the budget, and the messages to answer, with all that changes from run to run
// in a note in front of the newest one. New makes a Window, whose Fit returns the list for a call. All
// is pure: equal input gives an equal window, and nothing is read from the store.
package window

import (
	"slices"
	"strings"

	"parley/conversation"
	"parley/llm"
)

// Input is what a window is made of.
type Input struct {
	Frame       *Frame
	Snapshot    conversation.Snapshot  // of the session
	Asked       []conversation.Message // the messages to answer, oldest first
	Hint        string                 // of Hints.For; "" = none
	StateTokens int                    // the most of the session state; 0 = it is not shown
}

// Window is what a run sends to the model: the system prompt with the instructions and
// the summary of the conversation, the newest whole turns that fit, and the current
// turn with a note in front of its newest question.
type Window struct {
	counter Counter
	system  string
	told    string // about this conversation, below the system prompt; changes rarely
	note    string // in front of the newest message of the user; changes with every run
	fixed   int    // tokens of the frame
	history []conversation.Message
	older   int64   // messages before history that are not loaded
	current []Entry // the messages to answer and the tool rounds so far
}

// New returns the window of a conversation.
func New(in Input) Window {
	counter, snapshot := in.Frame.counter, in.Snapshot
	w := Window{
		counter: counter,
		system:  in.Frame.System,
		fixed:   in.Frame.Tokens(),
		history: snapshot.History,
		older:   snapshot.Older,
	}
	for _, text := range snapshot.Conversation.State.Instructions {
		w.told += "\n\n" + text
	}
	if text := summaryText(snapshot.Summary); text != "" {
		w.history = Uncovered(snapshot.History, snapshot.Summary)
		w.older = max(0, snapshot.Older-snapshot.Summary.Through)
		w.told += text
	}
	w.note = noteOf(in, counter)
	for i := range in.Asked {
		w.current = append(w.current, Entry{Message: ToModel(&in.Asked[i]), Tokens: in.Asked[i].Tokens})
	}
	return w
}

// Add appends messages of the model and its tools to the current turn.
func (w *Window) Add(messages ...Entry) { w.current = append(w.current, messages...) }

// Fixed returns the tokens of the system prompt, the tools and the frame.
func (w Window) Fixed() int { return w.fixed }

// Question returns the newest message of the user in the current turn.
func (w Window) Question() (question Entry, found bool) {
	if i := newestQuestion(w.current); i >= 0 {
		return w.current[i], true
	}
	return Entry{}, false
}

// List is what one call is sent.
type List struct {
	Messages []llm.Message // the system prompt first
	Left     int64         // messages of the conversation that are left out
	Tokens   int           // that the list takes of the budget
	Exact    bool          // Tokens is counted; else a part of it is estimated
	Cramped  bool          // there is no room for a meaningful part of the question, so it makes no sense to send the list
}

// Counted returns the list for one call within the budget. All its tokens are
// counted.
func (w Window) Counted(budget int) List {
	l := w.fill(budget, w.counter.Text(w.told), noteTokens(w.counter.Text(w.note)))
	l.Exact = true
	return l
}

// bytesPerToken is the usual length of a token of English, for estimates:
// https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them
const bytesPerToken = 4

// Fit returns the same list as Counted. Where everything fits in any case, it only
// estimates the tokens of what changes with every run, which is faster.
func (w Window) Fit(budget int) List {
	told, note := len(w.told), noteTokens(len(w.note)) // a token is at least a byte
	if !w.isRoomy(budget, told, note) {
		return w.Counted(budget)
	}
	l := w.fill(budget, told, note)
	most := told + len(w.note)
	l.Tokens -= most - most/bytesPerToken
	return l
}

// isRoomy reports whether everything fits when told and the note have so many tokens.
func (w Window) isRoomy(budget, told, note int) bool {
	if w.fixed+told > budget/2 || note > budget/2 {
		return false
	}
	sum := w.fixed + told + note
	for i := range w.history {
		sum += w.history[i].Tokens
	}
	for _, e := range w.current {
		sum += e.Tokens
	}
	return sum <= budget
}

// fill returns the list when told and the note have so many tokens.
func (w Window) fill(budget, told, note int) List {
	w.system, w.fixed = w.system+w.told, w.fixed+told
	system, room := w.fitSystem(budget)
	if note > room/2 { // the question matters more
		w.note, note = "", 0
	}
	room -= note
	current, cramped := w.fit(w.current, room)
	left := w.older + int64(len(w.current)-len(current))
	for _, e := range current {
		room -= e.Tokens
	}
	shown, taken := w.newest(room)
	left += int64(len(w.history) - len(shown))

	messages := make([]llm.Message, 0, 1+len(shown)+len(current))
	system.Content = strings.TrimSpace(system.Content)
	messages = append(messages, system)
	messages = append(messages, shown...)
	asked := make([]llm.Message, len(current))
	for i := range current {
		asked[i] = current[i].Message
	}
	messages = withNote(messages, asked, w.note, left)
	return List{Messages: messages, Left: left, Tokens: budget - room + taken, Cramped: cramped}
}

// newest returns the newest whole turns of the history that fit into the room, and
// the tokens that they take. A message that would take more than half of the room is
// cut in the middle.
func (w Window) newest(room int) (shown []llm.Message, taken int) {
	all, largest := room, room/2
	backwards := make([]llm.Message, 0, min(len(w.history), 128))
	whole := 0
	for i := len(w.history) - 1; i >= 0; i-- {
		m, tokens := ToModel(&w.history[i]), w.history[i].Tokens
		if tokens > largest {
			m = w.cut(m, largest)
			tokens = w.counter.Message(m)
		}
		if room -= tokens; room < 0 {
			if whole == 0 {
				return w.cutTurn(all)
			}
			break
		}
		backwards = append(backwards, m)
		if i == 0 || conversation.StartsTurn(&w.history[i-1], &w.history[i]) {
			whole, taken = len(backwards), all-room
		}
	}
	shown = backwards[:whole]
	slices.Reverse(shown)
	return shown, taken
}

// summaryText returns a summary as it stands in the window, "" for none.
func summaryText(s conversation.Summary) string {
	if s.Through == 0 {
		return ""
	}
	return "\n\n[Summary of the conversation before the messages that follow]\n" + s.Content
}

// Uncovered returns the part of a history that a summary does not cover.
func Uncovered(history []conversation.Message, s conversation.Summary) []conversation.Message {
	for i := range history {
		if history[i].Seq > s.Through {
			return history[i:]
		}
	}
	return nil
}
