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

// isRule reports whether a line is a thematic break. Only few lines are matched
// with the expression.
func isRule(line string) bool {
	return strings.Trim(line, " -*_") == "" && ruleLine.MatchString(line)
}

// checkTask shows the box of a task, which stays an item of its list.
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

// heading returns a heading that is deeper than Discord's as bold text. One that
// holds bold text, or code that reads like it, becomes Discord's deepest heading.
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

// linkImages turns images into links, and linked images into their link.
func linkImages(text string) string {
	if !strings.Contains(text, "![") {
		return text
	}
	text = linkedImage.ReplaceAllString(text, "[$1](")
	text = image.ReplaceAllString(text, "[$1](")
	return strings.ReplaceAll(text, "[](", "[image](")
}

// labels are the labels of the footnotes that a text explains.
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

// plain writes references to footnotes as "[1]".
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

// cutQuote splits a line into its quote marks, each with the space that Discord
// wants behind it, and the rest. It keeps ">>> ", with which Discord quotes all
// that follows.
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

const fenceMark = "```"

// language matches what Discord's clients take for the name of a language: a word directly
// behind the mark. Any other line is shown as code.
var language = regexp.MustCompile(`^[A-Za-z0-9_+\-.#]+`)

// writeFence writes a code block with the only marks that Discord knows. It
// always closes the block, since Discord shows no open ones.
func writeFence(b *strings.Builder, source string, f markdown.Fence) {
	lead := source[f.From : f.From+len(f.Indent)]
	b.WriteString(spaced(lead) + fenceMark + language.FindString(strings.TrimSpace(f.Info)) + "\n")
	if f.Body < f.Closing {
		for line := range strings.Lines(source[f.Body:f.Closing]) {
			writeCodeLine(b, line, f)
		}
		if source[f.Closing-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	b.WriteString(spaced(f.Indent) + fenceMark)
}

// writeCodeLine writes a line of code after the block's quote marks.
func writeCodeLine(b *strings.Builder, line string, f markdown.Fence) {
	line, _ = markdown.Unquote(line, strings.Count(f.Indent, ">"))
	marks := f.Indent[:strings.LastIndexByte(f.Indent, '>')+1]
	b.WriteString(spaced(marks) + partMarks(line))
}

// spaced adds a space to each quote mark that has none.
func spaced(lead string) string {
	return strings.ReplaceAll(strings.ReplaceAll(lead, "> ", ">"), ">", "> ")
}

// partMarks puts a zero-width space between three backticks in code: Discord ends
// a block at the first ones, wherever they are.
func partMarks(code string) string {
	const zeroWidthSpace = "\u200b"
	return strings.ReplaceAll(code, fenceMark, strings.Join([]string{"`", "`", "`"}, zeroWidthSpace))
}

// outsideCode changes the text of a line outside of code spans.
func outsideCode(line string, change func(text string) string) string {
	return mapSpans(line, change, func(span, _ string) string { return span })
}

// mapSpans changes the text and the code spans of a line. A span is passed with
// and without its backticks. Spans that end on another line are text.
func mapSpans(line string, text func(string) string, code func(span, inner string) string) string {
	if !strings.Contains(line, "`") {
		return text(line)
	}
	last := map[int]int{} // where the last run of so many backticks begins
	for pos := 0; pos < len(line); {
		from, to := nextTicks(line, pos)
		last[to-from] = from
		pos = to
	}
	var b strings.Builder
	done := 0
	for pos := 0; pos < len(line); {
		from, open := nextTicks(line, pos)
		pos = open
		if last[open-from] <= from {
			continue // nothing closes it
		}
		for at, end := nextTicks(line, open); ; at, end = nextTicks(line, end) {
			if end-at == open-from {
				b.WriteString(text(line[done:from]) + code(line[from:end], line[open:at]))
				pos, done = end, end
				break
			}
		}
	}
	return b.String() + text(line[done:])
}

// nextTicks returns the next run of backticks at or after pos, an empty one at
// the end.
func nextTicks(line string, pos int) (from, to int) {
	i := strings.IndexByte(line[pos:], '`')
	if i < 0 {
		return len(line), len(line)
	}
	from = pos + i
	return from, from + len(line[from:]) - len(strings.TrimLeft(line[from:], "`"))
}
