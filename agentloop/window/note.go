package window

import (
	"fmt"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/state"
	"parley/llm"
	"parley/plaintext"
)

// notes is what a call tells the model beside the messages. It stands in front of the newest
// message of the user, so that everything before it repeats the previous call byte for byte.
//
// A note costs more than its tokens: if the next call lacks it, the model's cache is of no use
// from that place on. So a state that tells nothing beyond the messages is left out. So are its
// focus, which is the beginning of the message that follows, and the ID of the conversation, which
// the system prompt has. What changes rarely stays with its message.
type notes struct {
	lasting state.Told // stays with the message, and is not told again while the model is shown it there
	state   string     // the session state where it changes too often to stay with the message; told in this run alone
	hint    string     // of Hints.For; told in this run alone
}

// noteReach is how many tokens may follow a note before it is repeated, since models pay more
// attention to what stands near the end.
const noteReach = 4000

func notesOf(in Input, counter Counter) (n notes) {
	n.lasting.Place = plaintext.ShortLine(in.Snapshot.Place, 200)
	if c := in.Snapshot.Conversation; tellsMore(c.State) {
		c.ID = ""
		if lasts(c.State) {
			c.Tokens, c.State.Turns, c.State.Model = 0, 0, ""
			n.lasting.State, n.lasting.Numbers = StateText(c, "", counter, in.StateTokens), numbersOf(c.State)
		} else {
			n.state = StateText(c, "", counter, in.StateTokens)
		}
	}
	n.hint = in.Hint
	return n
}

// lasts reports whether a state changes rarely. One with files and failed commands changes
// with nearly every run, and if each stayed with its message, they would fill the window.
func lasts(s state.State) bool {
	return len(s.Files)+len(s.Failures) == 0 && s.Directory == "" && s.Repository == ""
}

// text returns the note of a call: the lasting notes in told, and those of this run.
func (n notes) text(told state.Told) string {
	told.State += n.state // one of them is empty
	return joinNotes(noteText(told), n.hint)
}

// noteText returns the text in which the model is shown a lasting note.
func noteText(n state.Told) string {
	if n.Place != "" {
		n.Place = fmt.Sprintf("[This conversation takes place in %s.]", n.Place)
	}
	if n.State != "" {
		n.State = "[Session state]\n" + n.State
	}
	return joinNotes(n.Place, n.State)
}

func joinNotes(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "\n\n" + second
}

// NoteTokens returns the most tokens that what stays with a message adds to it.
func NoteTokens(n state.Told, counter Counter) int {
	return noteTokens(counter.Text(noteText(n)))
}

// untold returns the lasting notes that the history of a window that begins at place does not show.
func (w Window) untold(place conversation.Window) state.Told {
	told, behind := w.notes.lasting, 0
	seen := state.Told{}
	history := w.history[w.firstFrom(place.Start):]
	for i := len(history) - 1; i >= 0 && (seen.Place == "" || seen.State == ""); i-- {
		note := w.shownNote(&history[i], place.Cut)
		if seen.Place == "" && note.Place != "" {
			if seen.Place = note.Place; seen.Place == told.Place && behind <= noteReach {
				told.Place = ""
			}
		}
		if seen.State == "" && note.State != "" {
			if seen.State = note.State; seen.State == told.State && behind <= noteReach {
				told.State = ""
			}
		}
		behind += min(history[i].Tokens, place.Cut)
	}
	if told.State == "" {
		told.Numbers = nil
	}
	return told
}

// withNotesInForce returns a history without the notes whose state holds a rule or a decision that
// has been struck since.
func withNotesInForce(history []conversation.Message, now state.State) []conversation.Message {
	inForce, cloned := numbersOf(now), false
	for i := range history {
		isStruck := func(number int64) bool { return !slices.Contains(inForce, number) }
		if !slices.ContainsFunc(history[i].Note.Numbers, isStruck) {
			continue
		}
		if !cloned {
			history, cloned = slices.Clone(history), true
		}
		history[i].Note.State, history[i].Note.Numbers = "", nil
	}
	return history
}

// numbersOf returns the numbers of the rules and decisions of a state.
func numbersOf(s state.State) (numbers []int64) {
	s = s.WithNumbers()
	for _, n := range slices.Concat(s.Constraints, s.Decisions) {
		numbers = append(numbers, n.Number)
	}
	return numbers
}

// tellsMore reports whether a state holds more than the length of the conversation and the model
// that answers.
func tellsMore(s state.State) bool {
	return len(s.Constraints)+len(s.Decisions)+len(s.Files)+len(s.Failures) > 0 || s.Directory != "" || s.Repository != "" || s.Forgotten > 0
}

// noteTokens returns the most tokens that a note of so many adds to a message. The
// room for turnNotice belongs to the frame.
func noteTokens(tokens int) int {
	if tokens == 0 {
		return 0
	}
	return tokens + noteMarks
}

// noteMarks is the most tokens that the marks around a note cost, together with the tokens that
// differ because its end and the beginning of the message are counted as one text.
const noteMarks = 20

// shownNote returns the note that the model is shown with a message of the history.
func (w Window) shownNote(m *conversation.Message, limit int) state.Told {
	if m.Tokens > limit && !m.Note.IsZero() {
		if shown, _ := w.shown(m, limit); shown.Note == "" {
			return state.Told{}
		}
	}
	return m.Note
}

// withNote puts a note, if there is one, and how many messages of the current turn are not shown, in front
// of the turn's newest message of the user. Where nothing is asked, as when an operator
// looks at a window, it appends a message for them.
func withNote(messages, current []llm.Message, note string, hidden int) []llm.Message {
	if hidden > 0 {
		note = strings.TrimSuffix(fmt.Sprintf(turnNotice, hidden)+"\n\n"+note, "\n\n")
	}
	if note == "" {
		return append(messages, current...)
	}
	for i := len(current) - 1; i >= 0; i-- {
		if current[i].Role == string(conversation.RoleUser) {
			current[i].Note = note
			break
		}
	}
	messages = append(messages, current...)
	if len(current) == 0 {
		messages = append(messages, llm.Message{Role: string(conversation.RoleUser), Note: note})
	}
	return messages
}
