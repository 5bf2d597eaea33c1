package window

import (
	"fmt"
	"strings"

	"parley/conversation"
	"parley/llm"
	"parley/plaintext"
)

// noteOf returns what a call tells the model beside the talk and changes from run to
// run: the place, the session state and the hint. It stands in front of the newest
// message of the user, so that all before it stays as it was in the call before.
func noteOf(in Input, counter Counter) string {
	var parts []string
	if place := plaintext.ShortLine(in.Snapshot.Place, 200); place != "" {
		parts = append(parts, fmt.Sprintf("[This conversation takes place in %s.]", place))
	}
	if state := StateText(in.Snapshot.Conversation, FocusOf(in.Snapshot.History, in.Asked), counter, in.StateTokens); state != "" {
		parts = append(parts, "[Session state]\n"+state)
	}
	if in.Hint != "" {
		parts = append(parts, in.Hint)
	}
	return strings.Join(parts, "\n\n")
}

// noteTokens returns the most tokens that a note of so many adds to a message. The
// room for how many messages are not shown belongs to the frame.
func noteTokens(tokens int) int {
	if tokens == 0 {
		return 0
	}
	return tokens + noteMarks
}

// noteMarks is the most tokens of the marks around a note and of how its end and the
// message's beginning join.
const noteMarks = 20

// withNote puts a note and how many messages are not shown in front of the newest
// message of the user in the current turn. Where nothing is asked, as when an operator
// looks at a window, it appends a message for them.
func withNote(messages, current []llm.Message, note string, hidden int64) []llm.Message {
	if hidden > 0 {
		note = strings.TrimSuffix(fmt.Sprintf(notice, hidden)+"\n\n"+note, "\n\n")
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
