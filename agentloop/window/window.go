// Package window decides what one model call is sent: the system prompt with the
// instructions and the summary of the conversation, the turns from where the window
// begins, and the messages to answer, with all that changes from run to run in a note in
// front of the newest one. New makes a Window, whose Fit returns the list for a call.
// All is pure: equal input gives an equal window, and nothing is read from the store.
package window

import (
	"fmt"
	"slices"

	"parley/conversation"
	"parley/conversation/state"
	"parley/llm"
)

// Input is what a window is made of.
type Input struct {
	Frame       *Frame
	Snapshot    conversation.Snapshot  // of the session
	Asked       []conversation.Message // the messages to answer, oldest first
	Hint        string                 // of Hints.For; "" = none
	StateTokens int                    // the most of the session state; 0 = it is not shown
	Pictures    int                    // how many pictures are shown at most; 0 for a model that takes no images
	KeepRecent  int                    // newest messages that are shown as far as the budget allows
}

// Window is what a run sends to the model: the system prompt with the instructions and
// the summary of the conversation, the turns from where the window begins, and the
// current turn with a note in front of its newest question.
type Window struct {
	counter      Counter
	prompt       string // the operator's system prompt
	explanation  string // the gateway's explanation of notes and tools, below the prompt
	instructions string // instructions of programs, the summary of the conversation before, and the ID, which stand below the system prompt and change rarely
	summary      conversation.Summary
	notes        notes // in front of the newest message of the user
	fixed        int   // tokens of the frame: system prompt and tools
	tools        []llm.Tool
	history      []conversation.Message
	older        int64   // messages before history that are not loaded
	current      []Entry // the messages to answer and the tool rounds so far
	keepRecent   int
	pictures     int                 // how many pictures are shown at most
	place        conversation.Window // where the call before began; zero = not chosen yet
	told         state.Told          // the lasting part of the note in the newest call
}

// New returns the window of a conversation.
func New(in Input) Window {
	snapshot := in.Snapshot
	w := Window{
		counter:     in.Frame.counter,
		prompt:      in.Frame.prompt,
		explanation: in.Frame.explanation,
		fixed:       in.Frame.Tokens(),
		tools:       in.Frame.Tools,
		summary:     snapshot.Summary,
		history:     withNotesInForce(withMadeNamed(withoutLeftOut(snapshot.History, in.Frame.counter)), snapshot.Conversation.State),
		older:       snapshot.Older,
		keepRecent:  in.KeepRecent,
		pictures:    in.Pictures,
		place:       snapshot.Conversation.Window,
		notes:       notesOf(in, in.Frame.counter),
	}
	for _, text := range snapshot.Conversation.State.Instructions {
		w.instructions += "\n\n" + text
	}
	if before := snapshot.Conversation.State.Before; before != "" {
		w.instructions += "\n\n[Summary of the conversation before this one]\n" + before
	}
	if in.StateTokens > 0 {
		w.instructions += fmt.Sprintf("\n\n[This is the conversation %s.]", snapshot.Conversation.ID)
	}
	for _, m := range withoutLeftOut(in.Asked, in.Frame.counter) {
		e := EntryOf(m)
		e.Note = "" // of an earlier answer
		w.current = append(w.current, e)
	}
	return w
}

// Add appends messages of the model and its tools to the current turn.
func (w *Window) Add(messages ...Entry) { w.current = append(w.current, messages...) }

// Sent records that a list was sent: later lists begin where it began, as long as they
// fit.
func (w *Window) Sent(l List) { w.place, w.told = l.Window, l.Note }

// Told returns what the newest list told that stays with its question, for the run's commit.
func (w Window) Told() state.Told { return w.told }

// Place returns where the lists of the window begin, for the run's commit.
func (w Window) Place() conversation.Window { return w.place }

// WithSummary returns the window with another summary, which begins at place.
func (w Window) WithSummary(s conversation.Summary, place conversation.Window) Window {
	w.summary, w.place = s, place
	w.place.Named = w.toName(place.Start)
	return w
}

// Covered returns the seq of the last message that the summary covers, 0 without one.
func (w Window) Covered() int64 { return w.summary.Through }

// Fixed returns the tokens of the system prompt, the tools and the frame.
func (w Window) Fixed() int { return w.fixed }

// Tools returns the tools that every list is sent with, in their order.
func (w Window) Tools() []llm.Tool { return w.tools }

// Question returns the newest message of the user in the current turn.
func (w Window) Question() (question Entry, found bool) {
	if i := newestQuestion(w.current); i >= 0 {
		return w.current[i], true
	}
	return Entry{}, false
}

// List is what one call is sent.
type List struct {
	Messages []llm.Message       // the system prompt first
	Window   conversation.Window // where the list begins in the conversation
	Note     state.Told          // the part of the note that is stored with the question, so that later calls repeat it
	Advanced bool                // the list begins elsewhere than that of the call before
	Left     int64               // messages of the conversation that are left out
	Tokens   int                 // tokens of the budget that the list takes
	Exact    bool                // Tokens is counted; else a part of it is estimated
	Cramped  bool                // there is no room for a meaningful part of the question, so it makes no sense to send the list
}

// Counted returns the list for one call within the budget. All its tokens are
// counted.
func (w Window) Counted(budget int) List {
	below := w.counter.Text(w.below())
	l, fits := w.stay(budget, below, w.counter.Text)
	if !fits {
		l = w.advance(budget, below)
	}
	l.Exact = true
	return l
}

// bytesPerToken is the usual length of a token of English, for estimates:
// https://help.openai.com/en/articles/4936856-what-are-tokens-and-how-to-count-them
const bytesPerToken = 4

// Fit returns the same list as Counted. Where everything fits in any case, it only
// estimates the tokens of what changes with every run, which is faster.
func (w Window) Fit(budget int) List {
	below := len(w.below()) // a token is at least a byte
	if most := len(w.notes.text(w.notes.lasting)); w.fixed+below <= budget/2 && most <= budget/4 {
		note := 0
		size := func(text string) int {
			note = len(text)
			return note
		}
		if l, fits := w.stay(budget, below, size); fits {
			most := below + note
			l.Tokens -= most - most/bytesPerToken
			return l
		}
	}
	return w.Counted(budget)
}

// below returns what the model is told about the conversation, below the system prompt.
func (w Window) below() string { return w.instructions + summaryText(w.summary) }

// stay returns the list that begins where the previous call began, if it fits into the budget.
// below is the number of tokens below the system prompt; count counts the tokens of the note.
func (w Window) stay(budget, below int, count func(string) int) (l List, fits bool) {
	place := w.place
	if w.older > w.summary.Through && w.older >= place.Start { // some of it is not even loaded
		return List{}, false
	}
	if place.Start == 0 {
		place = w.chosen(budget, max(w.older, w.summary.Through)+1)
		place.Named = w.toName(place.Start)
	}
	if !w.hasRoomForPictures(place) {
		return List{}, false
	}
	system, fixed := w.fitSystem(place.Budget, below)
	told := w.untold(place)
	told, text, note := w.fitNote(budget-fixed, told, count)
	room := budget - fixed - note
	for i := range w.current {
		room -= w.current[i].Tokens
	}
	if room < 0 || w.exceeds(place, room) {
		return List{}, false
	}
	shown, taken := w.from(place)
	if taken > room {
		return List{}, false
	}
	_, named := w.named(place)
	l = w.list(place, system, shown, namePictures(w.current, named), text)
	l.Tokens, l.Note = budget-room+taken, told
	return l, true
}

// chosen returns the window that begins at start, for a budget.
func (w Window) chosen(budget int, start int64) conversation.Window {
	return conversation.Window{Start: start, Cut: max((budget-w.fixed)/2, minCut), Budget: budget}
}

// fitNote returns the note with the lasting notes in told, and its tokens. It leaves the note
// out if it would take more than half of the room: the question matters more.
func (w Window) fitNote(room int, told state.Told, count func(string) int) (_ state.Told, text string, tokens int) {
	text = w.notes.text(told)
	if tokens = noteTokens(count(text)); tokens > room/2 {
		return state.Told{}, "", 0
	}
	return told, text, tokens
}

// list puts a list together.
func (w Window) list(place conversation.Window, system llm.Message, shown []llm.Message, current []Entry, note string) List {
	left, leftOfTurn := max(0, place.Start-1-w.summary.Through), len(w.current)-len(current)
	if left > 0 {
		system.Content += "\n\n" + fmt.Sprintf(notice, left)
	}
	messages := make([]llm.Message, 0, 2+len(shown)+len(current))
	messages = append(messages, system)
	messages = append(messages, shown...)
	asked := make([]llm.Message, len(current))
	for i := range current {
		asked[i] = current[i].message()
	}
	return List{Messages: withNote(messages, asked, note, leftOfTurn), Window: place, Left: left + int64(leftOfTurn)}
}

// from returns the history from where a window begins, and the tokens that it takes. A
// longer message than the window's cut is cut in the middle: the same way in each call,
// since nothing else decides on it.
func (w Window) from(place conversation.Window) (shown []llm.Message, taken int) {
	history := w.history[w.firstFrom(place.Start):]
	shown = make([]llm.Message, len(history))
	named, _ := w.named(place)
	for i := range history {
		m := &history[i]
		if n := min(named, len(m.Images)); n > 0 {
			withNames := NamePictures(*m, n)
			m, named = &withNames, named-n
		}
		sent, tokens := w.shown(m, place.Cut)
		shown[i] = sent
		taken += tokens
	}
	return shown, taken
}

// exceeds reports whether the messages that are shown whole exceed the room. It spares
// the work for a list that is not sent.
func (w Window) exceeds(place conversation.Window, room int) bool {
	history := w.history[w.firstFrom(place.Start):]
	for i := range history {
		if history[i].Tokens > place.Cut {
			continue
		}
		if room -= history[i].Tokens; room < 0 {
			return true
		}
	}
	return false
}

// firstFrom returns the index of the first message of the history with that seq or a
// later one, and not covered by the summary.
func (w Window) firstFrom(seq int64) int {
	seq = max(seq, w.summary.Through+1)
	i, _ := slices.BinarySearchFunc(w.history, seq, func(m conversation.Message, seq int64) int { return int(m.Seq - seq) })
	return i
}

// shown returns a message as the model is shown it. One that has more than limit tokens
// beside its note is cut to these, and shown without the note.
func (w Window) shown(m *conversation.Message, limit int) (shown llm.Message, tokens int) {
	shown = ToModel(m)
	if m.Tokens <= limit {
		return shown, m.Tokens
	}
	if shown.Note != "" {
		whole := shown
		if shown.Note = ""; w.counter.Message(shown) <= limit {
			return whole, m.Tokens
		}
	}
	shown = w.cut(shown, limit)
	return shown, w.counter.Message(shown)
}

// cost returns the tokens of a message as it is shown.
func (w Window) cost(m *conversation.Message, limit int) int {
	if m.Tokens <= limit {
		return m.Tokens
	}
	_, tokens := w.shown(m, limit)
	return tokens
}

// summaryText returns a summary as it stands in the window, "" for none.
func summaryText(s conversation.Summary) string {
	if s.Through == 0 {
		return ""
	}
	return "\n\n[Summary of the conversation before the messages that follow]\n" + s.Content
}
