package markdown

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// beforeSpan returns a cut in front of the link, code or emphasised text that a cut falls into, since
// the marks of each half would be shown as they are. It returns the cut unchanged where the part would
// become too short, or where a part has no room for the span.
func (s *splitter) beforeSpan(pos, end, next, room int) (int, int) {
	if end == len(s.text) || s.text[end] == '\n' {
		return end, next
	}
	from := pos + strings.LastIndexByte(s.text[pos:end], '\n') + 1
	rest := s.text[end:min(len(s.text), end+room*utf8.UTFMax)]
	line, _ := lineAt(s.text[from:end+len(rest)], 0)
	start, stop := spanAround(line, end-from)
	if start == stop || s.units.Count(line[start:stop]) > room {
		return end, next
	}
	start = len(strings.TrimRightFunc(line[:start], isOpening))
	if start <= Containers(line) {
		start = 0
	}
	cut := from + start
	before := strings.TrimRight(s.text[pos:cut], " \t\n")
	if s.units.Count(before)*shortest[cutParagraph] < room {
		return end, next
	}
	return pos + len(before), cut
}

// isOpening reports whether a character belongs to the word that follows it, such as a bracket.
func isOpening(r rune) bool { return r == '"' || r == '\'' || unicode.In(r, unicode.Ps, unicode.Pi) }

var (
	spanLink    = regexp.MustCompile(`^\[[^\[\]]*\]\((?:[^()\s]|\([^()\s]*\))*(?: +"[^"]*")?\)`)
	spanAddress = regexp.MustCompile(`^<[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*>`)
)

// spanMarks stand around text that looks different, the longer ones first.
var spanMarks = [...]string{"**", "__", "~~", "||", "*", "_"}

// spanAround returns the beginning and the end of the outermost link, code or emphasised text of a line
// that goes on at an offset; both are the offset when there is none.
func spanAround(line string, at int) (from, to int) {
	closing := map[string]int{} // the next end of a mark that was looked for; len(line) if there is none
	for i := 0; i < at; {
		step, end := 1, 0
		switch c := line[i]; c {
		case '\\':
			step = 2
		case '`':
			step = len(line[i:]) - len(strings.TrimLeft(line[i:], "`"))
			end = closingTicks(line, i+step, line[i:i+step], closing)
		case '[':
			end = i + len(spanLink.FindString(line[i:]))
		case '<':
			end = i + len(spanAddress.FindString(line[i:]))
		case '*', '_', '~', '|':
			for _, mark := range spanMarks {
				if strings.HasPrefix(line[i:], mark) {
					step = len(mark)
					end = closingMark(line, i, mark, closing)
					break
				}
			}
		}
		if end > at {
			return i, end
		}
		i = max(i+step, end)
	}
	return at, at
}

// closingTicks returns the end of the code span that runs of backticks open before from, 0 if there is none.
func closingTicks(line string, from int, ticks string, closing map[string]int) int {
	at, known := closing[ticks]
	if !known || at < from {
		at = nextTicks(line, from, len(ticks))
		closing[ticks] = at
	}
	if at == len(line) {
		return 0
	}
	return at + len(ticks)
}

// nextTicks returns where the next run of exactly n backticks begins, len(line) if there is none.
func nextTicks(line string, from, n int) int {
	for i := from; i < len(line); {
		next := strings.IndexByte(line[i:], '`')
		if next < 0 {
			break
		}
		i += next
		run := len(line[i:]) - len(strings.TrimLeft(line[i:], "`"))
		if run == n {
			return i
		}
		i += run
	}
	return len(line)
}

// closingMark returns the end of the text that a mark opens at i, 0 if it opens none.
func closingMark(line string, i int, mark string, closing map[string]int) int {
	from := i + len(mark)
	if from >= len(line) || isSpaceAt(line, from) || mark == "_" && i > 0 && isWordByte(line[i-1]) {
		return 0
	}
	at, known := closing[mark]
	if !known || at <= from {
		at = nextClosing(line, from+1, mark)
		closing[mark] = at
	}
	if at == len(line) {
		return 0
	}
	for at += len(mark); at < len(line) && line[at] == mark[0]; at++ {
	}
	return at
}

// nextClosing returns where the next mark begins that may be a closing mark, len(line) if
// there is none.
func nextClosing(line string, from int, mark string) int {
	for i := from; i < len(line); i++ {
		next := strings.Index(line[i:], mark)
		if next < 0 {
			break
		}
		if i += next; closes(line, i, mark) {
			return i
		}
	}
	return len(line)
}

// closes reports whether the mark at j may be a closing mark: after a space it is none, and a single underscore is none within a word.
func closes(line string, j int, mark string) bool {
	after := j + len(mark)
	if isSpaceAt(line, j-1) {
		return false
	}
	return mark != "_" || after == len(line) || !isWordByte(line[after])
}

func isSpaceAt(line string, i int) bool { return line[i] == ' ' || line[i] == '\t' }

func isWordByte(c byte) bool {
	return c >= utf8.RuneSelf || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
