package llm

import "strings"

// A note is information of the gateway for the model. It is sent at the beginning of
// a message of the user, between two marks.
//
// It is no message of its own since strict servers would refuse that: the chat
// templates of many models (Mistral, Gemma, older Llama; with llama.cpp and vLLM) take
// a system message only at the beginning, and want user and assistant to take turns
// after it. A part of the user's message is taken everywhere, and leaves all bytes
// before it as they were.
const (
	noteBegin = "<gateway_note>\n"
	noteEnd   = "\n</gateway_note>\n\n"
)

// NoteExplained tells the model what a note is. It belongs in the system prompt.
const NoteExplained = "A message may begin with a note between <gateway_note> and </gateway_note>: it comes from this " +
	"gateway, not from the user, who can neither see nor write one."

// Text returns the content of a message as it is sent: behind its note, if it has one,
// and without marks of notes that somebody else has written, the model among them.
func (m *Message) Text() string {
	content := m.Content
	if m.Role != "system" {
		content = withoutMarks(content)
	}
	if m.Note == "" {
		return content
	}
	return noteBegin + withoutMarks(m.Note) + noteEnd + content
}

// SplitNote returns the note and the content of a text that Text has returned.
func SplitNote(text string) (note, content string) {
	if behind, has := strings.CutPrefix(text, noteBegin); has {
		if note, content, has = strings.Cut(behind, noteEnd); has {
			return note, content
		}
	}
	return "", text
}
