package discord

import (
	"regexp"
	"strings"

	"parley/channels/markdown"
)

const fenceMark = "```"

// language is what Discord's clients take for one: a word directly behind the
// mark. With anything else, all of the line shows as code.
var language = regexp.MustCompile(`^[A-Za-z0-9_+\-.#]+`)

// writeFence writes a code block with the only marks that Discord knows, and
// closes it, since Discord shows no open ones.
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

// writeCodeLine writes a line of code as it is, behind the block's quote marks.
func writeCodeLine(b *strings.Builder, line string, f markdown.Fence) {
	line, _ = markdown.Unquote(line, strings.Count(f.Indent, ">"))
	marks := f.Indent[:strings.LastIndexByte(f.Indent, '>')+1]
	b.WriteString(spaced(marks) + partMarks(line))
}

// spaced puts a space behind each quote mark that has none.
func spaced(lead string) string {
	return strings.ReplaceAll(strings.ReplaceAll(lead, "> ", ">"), ">", "> ")
}

// partMarks keeps what would end a code block from doing so: Discord ends it
// at the first three backticks, wherever they are. A space of no width between
// them looks the same.
func partMarks(code string) string {
	const zeroWidthSpace = "\u200b"
	return strings.ReplaceAll(code, fenceMark, strings.Join([]string{"`", "`", "`"}, zeroWidthSpace))
}

// outsideCode changes the text of a line that is not in code spans.
func outsideCode(line string, change func(text string) string) string {
	return mapSpans(line, change, func(span, _ string) string { return span })
}

// mapSpans changes the text and the code spans of a line, each given with and
// without its backticks. Spans that end on another line are text.
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

// nextTicks is the next run of backticks at or after pos, empty at the end.
func nextTicks(line string, pos int) (from, to int) {
	i := strings.IndexByte(line[pos:], '`')
	if i < 0 {
		return len(line), len(line)
	}
	from = pos + i
	return from, from + len(line[from:]) - len(strings.TrimLeft(line[from:], "`"))
}
