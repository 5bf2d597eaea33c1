package llm

import "strings"

// thoughtMarks are the marks around what models think before they answer, where their server
// leaves it in the text.
var thoughtMarks = [][2]string{{"<think>", "</think>"}, {"<thinking>", "</thinking>"}}

// longestMark is at least the length of a mark with the ends of the lines around it.
const longestMark = 16

// thinking divides a text that comes in pieces into what the model thinks at its beginning,
// between marks, and its answer. A mark may be cut anywhere.
type thinking struct {
	held  string // the end of what has come, which may be a part of a mark
	stage thinkingStage
	end   string // the mark that ends the thought that has begun
}

// thinkingStage is where in a text its end is.
type thinkingStage int

const (
	atBeginning thinkingStage = iota
	inThought
	behindThought // the thought has ended; only white space has come since
	inAnswer
)

// add takes a piece, and returns what it adds to the thought and to the answer.
func (t *thinking) add(piece string) (thought, answer string) {
	if t.stage == inAnswer {
		return "", piece
	}
	text := t.held + piece
	t.held = ""
	if t.stage == atBeginning {
		if text = t.begin(text); t.stage == atBeginning {
			return "", ""
		}
	}
	if t.stage == inThought {
		before, behind, ended := strings.Cut(text, t.end)
		if !ended {
			keep := partOfMark(text, t.end)
			t.held = text[len(text)-keep:]
			return text[:len(text)-keep], ""
		}
		thought, text, t.stage = before, behind, behindThought
	}
	if t.stage == behindThought {
		if text = strings.TrimLeft(text, " \t\r\n"); text != "" {
			t.stage = inAnswer
		}
	}
	return thought, text
}

// begin looks for a mark at the beginning of a text. It returns what stands behind it, or all of
// the text where there is none, and holds a text that may still become one.
func (t *thinking) begin(text string) string {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	for _, marks := range thoughtMarks {
		if rest, is := strings.CutPrefix(trimmed, marks[0]); is {
			t.stage, t.end = inThought, marks[1]
			return rest
		}
		if strings.HasPrefix(marks[0], trimmed) {
			t.held = text
			return ""
		}
	}
	t.stage = inAnswer
	return text
}

// rest returns what is held at the end of the stream: it is no mark.
func (t *thinking) rest() (thought, answer string) {
	held := t.held
	t.held = ""
	if t.stage == inThought {
		return held, ""
	}
	return "", held
}

// splitThought divides a text that begins in the middle of a thought: chat templates of some models (DeepSeek R1, QwQ) end with
// the mark that begins it, so that the answer has only the mark that ends it, on a line of its own.
func splitThought(text string) (thought, answer string, is bool) {
	for _, marks := range thoughtMarks {
		thought, answer, is = strings.Cut(text, "\n"+marks[1]+"\n")
		if is && !strings.Contains(thought, marks[0]) {
			return thought, strings.TrimLeft(answer, " \t\r\n"), true
		}
	}
	return "", text, false
}

// partOfMark returns how many bytes at the end of a text may be the beginning of a mark.
func partOfMark(text, mark string) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}
