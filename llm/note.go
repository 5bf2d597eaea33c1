package llm

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// markBrackets are what a mark may begin with. Besides "<" they are its forms of other
// widths (U+FF1C, U+FE64), which models read as it.
var markBrackets = []string{"<", "＜", "﹤"}

// withoutMarks returns text in which nothing can be taken for a mark of a note.
func withoutMarks(text string) string {
	for _, bracket := range markBrackets {
		text = withoutMarksOf(text, bracket)
	}
	return text
}

func withoutMarksOf(text, bracket string) string {
	var b strings.Builder
	written := 0
	for from := 0; ; {
		at := strings.Index(text[from:], bracket)
		if at < 0 {
			break
		}
		if from += at + len(bracket); isMark(text[from:]) {
			b.WriteString(text[written:from-len(bracket)] + "‹")
			written = from
		}
	}
	if written == 0 { // the common case
		return text
	}
	return b.String() + text[written:]
}

// isMark reports whether text, which follows a bracket, makes a mark of a note, also as a
// model may be made to read it: in capitals or letters of full width, with spaces, dashes
// and characters that are not seen.
func isMark(text string) bool {
	name := "gatewaynote"
	for _, r := range text {
		if r >= '！' && r <= '～' { // ASCII in full width
			r -= '！' - '!'
		}
		switch r = unicode.ToLower(r); {
		case r == rune(name[0]):
			if name = name[1:]; name == "" {
				return true
			}
		case r == '/', r == utf8.RuneError, unicode.IsSpace(r), unicode.In(r, unicode.Z, unicode.Cc, unicode.Cf, unicode.M, unicode.Pc, unicode.Pd):
		default:
			return false
		}
	}
	return false
}

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
