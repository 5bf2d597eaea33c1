package discord

import (
	"regexp"
	"strings"

	"parley/channels/markdown"
)

// render turns markdown into what Discord knows of it, line by line, so that
// everything else stays what the model wrote:
// https://support.discord.com/hc/en-us/articles/210298617. It reads clean
// text. Code that is only indented, and not fenced, is read as text: by the
// lines alone it can't be told from what goes on in a list.
func render(source string) string {
	var b strings.Builder
	b.Grow(len(source) + len(source)/8)
	notes := footnotes(source)
	pos := 0
	for _, f := range markdown.Fences(source) {
		writeProse(&b, source[pos:f.From], notes)
		writeFence(&b, source, f)
		pos = f.To
	}
	writeProse(&b, source[pos:], notes)
	return b.String()
}

// writeProse writes text without fenced code.
func writeProse(b *strings.Builder, text string, notes labels) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		if i > 0 {
			b.WriteByte('\n')
		}
		if rows := tableLines(lines[i:]); rows > 0 {
			writeTable(b, lines[i:i+rows])
			i += rows
			continue
		}
		quote, line := cutQuote(lines[i])
		b.WriteString(quote)
		writeLine(b, line, notes)
		i++
	}
}

var (
	ruleLine    = regexp.MustCompile(`^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$`)
	deepHeading = regexp.MustCompile(`^ {0,3}#{4,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	task        = regexp.MustCompile(`^([ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+)\[[ xX]\](?: |$)`)
)

// writeLine writes one line, without its quote marks.
func writeLine(b *strings.Builder, line string, notes labels) {
	if isRule(line) {
		b.WriteString("———")
		return
	}
	if strings.Contains(line, "####") {
		if m := deepHeading.FindStringSubmatch(line); m != nil && m[1] != "" {
			line = heading(m[1])
		}
	}
	if strings.Contains(line, "[") {
		line = checkTask(line)
		line = outsideCode(line, func(text string) string { return notes.plain(linkImages(text)) })
	}
	b.WriteString(line)
}

// isRule leaves the expression to the few lines that could be one.
func isRule(line string) bool {
	return strings.Trim(line, " -*_") == "" && ruleLine.MatchString(line)
}

// checkTask shows the boxes of tasks, which stay items of their list.
func checkTask(line string) string {
	m := task.FindStringSubmatchIndex(line)
	if m == nil {
		return line
	}
	box := "☑"
	if line[m[3]+1] == ' ' {
		box = "☐"
	}
	return line[:m[3]] + box + line[m[3]+len("[ ]"):]
}

// heading is a heading deeper than Discord has them, in bold. One that holds
// bold text, or code that reads like it, becomes the deepest that Discord has.
func heading(title string) string {
	if inner, ok := strings.CutPrefix(title, "**"); ok {
		if inner, ok = strings.CutSuffix(inner, "**"); ok && inner != "" && !strings.Contains(inner, "**") {
			return title
		}
	}
	if strings.Contains(title, "*") {
		return "### " + title
	}
	return "**" + title + "**"
}

var (
	linkedImage = regexp.MustCompile(`\[!\[([^\[\]]*)\]\([^()\s]*\)\]\(`)
	image       = regexp.MustCompile(`!\[([^\[\]]*)\]\(`)
)

// linkImages makes links of images, and of linked images their link.
func linkImages(text string) string {
	if !strings.Contains(text, "![") {
		return text
	}
	text = linkedImage.ReplaceAllString(text, "[$1](")
	text = image.ReplaceAllString(text, "[$1](")
	return strings.ReplaceAll(text, "[](", "[image](")
}

// labels are those of the footnotes that a text explains.
type labels map[string]bool

var (
	noteLine = regexp.MustCompile(`(?m)^[ >]*\[\^([^\[\]\s]+)\]:`)
	noteMark = regexp.MustCompile(`\[\^([^\[\]\s]+)\]`)
)

func footnotes(source string) labels {
	if !strings.Contains(source, "[^") {
		return nil
	}
	notes := labels{}
	for _, m := range noteLine.FindAllStringSubmatch(source, -1) {
		notes[m[1]] = true
	}
	return notes
}

// plain writes the marks of footnotes as "[1]".
func (notes labels) plain(text string) string {
	if len(notes) == 0 {
		return text
	}
	return noteMark.ReplaceAllStringFunc(text, func(mark string) string {
		if label := mark[2 : len(mark)-1]; notes[label] {
			return "[" + label + "]"
		}
		return mark
	})
}

// cutQuote parts a line from its quote marks, which Discord wants with a
// space behind each. ">>> " stays, with which Discord quotes all that follows.
func cutQuote(line string) (quote, rest string) {
	depth, end := markdown.QuoteMarks(line)
	if depth == 0 {
		return "", line
	}
	if text := strings.TrimLeft(line, " "); strings.HasPrefix(text, ">>> ") {
		return line[:len(line)-len(text)+4], text[4:]
	}
	return strings.Repeat("> ", depth), line[end:]
}
