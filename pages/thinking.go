package pages

import (
	"html/template"
	"strings"
)

// thoughtMarks are the marks around what models think before they answer, where they
// write it into their text.
var thoughtMarks = [][2]string{{"<think>", "</think>"}, {"<thinking>", "</thinking>"}}

// SplitThought returns what a model has thought at the beginning of its text, "" for
// nothing, and the answer behind it. open reports that the thought has no end yet.
func SplitThought(text string) (thought, answer string, open bool) {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	for _, marks := range thoughtMarks {
		rest, begins := strings.CutPrefix(trimmed, marks[0])
		if !begins {
			continue
		}
		thought, answer, ended := strings.Cut(rest, marks[1])
		return strings.TrimSpace(thought), strings.TrimLeft(answer, " \t\r\n"), !ended
	}
	return "", text, false
}

// AnswerBlocks returns an answer under way in pieces as Blocks does, behind what the model has
// thought, if that is kept apart: earlier before calls of tools, and now before the text. This
// thought is unfolded while there is no word of the answer.
func AnswerBlocks(earlier []string, thought, text string) []string {
	var blocks []string
	for _, one := range earlier {
		blocks = appendThought(blocks, one, false)
	}
	return append(appendThought(blocks, thought, text == ""), Blocks(text)...)
}

// appendThought appends the block of a thought that is not empty.
func appendThought(blocks []string, thought string, open bool) []string {
	thought = strings.TrimSpace(strings.ToValidUTF8(thought, "\uFFFD"))
	if thought == "" {
		return blocks
	}
	return append(blocks, thoughtBlock(thought, open))
}

// answerHTML returns AnswerBlocks of a finished answer.
func answerHTML(thought, text string) template.HTML {
	blocks := append(appendThought(nil, thought, false), Blocks(text)...)
	return template.HTML(strings.Join(blocks, ""))
}

// Answer returns a model's text without what it has thought before.
func Answer(text string) string {
	_, answer, _ := SplitThought(text)
	return answer
}

// thoughtBlock returns a thought as an element that can be folded. It is unfolded while
// the model thinks.
func thoughtBlock(thought string, open bool) string {
	attribute, label := "", "Thought"
	if open {
		attribute, label = " open", "Thinking …"
	}
	return `<details class="thought"` + attribute + `><summary>` + label + `</summary><div>` +
		strings.ReplaceAll(template.HTMLEscapeString(thought), "\n", "<br>") + `</div></details>`
}
