package markdown

import (
	"strings"

	"parley/markup"
)

// Fence is one fenced code block of a markdown text, its opening and closing
// lines included, but not the line end after them.
type Fence struct {
	Range
	Body    int    // where the code begins, after the opening line
	Closing int    // where the closing line begins; To when there is none
	Indent  string // quote marks and spaces before the opening mark, as long as what stands there
	Mark    string // "```" or longer, or "~~~"
	Info    string // what follows the mark: the language, and what else was written there
}

// Fences returns the fenced code blocks of a markdown text in order. It accepts
// any indentation, for blocks in lists. A block in a quote ends with the quote,
// and any block ends with the text.
func Fences(text string) []Fence {
	var fences []Fence
	var open *Fence
	end := func(closing, to int) {
		open.Closing, open.To = closing, to
		fences, open = append(fences, *open), nil
	}
	for pos, next := 0, 0; pos < len(text); pos = next {
		var line string
		line, next = lineAt(text, pos)
		if open != nil {
			code, quoted := Unquote(line, strings.Count(open.Indent, ">"))
			switch {
			case quoted && markup.IsClosingFence(code, open.Mark):
				end(pos, pos+len(line))
				continue
			case quoted:
				continue
			}
			end(pos-1, pos-1)
		}
		if f, ok := opens(line); ok {
			f.From, f.Body = pos, next
			open = &f
		}
	}
	if open != nil {
		end(len(text), len(text))
	}
	return fences
}

func (f *Fence) opener() string        { return f.Indent + f.Mark + f.Info }
func (f *Fence) closer() string        { return f.Indent + f.Mark }
func (f *Fence) inOpener(pos int) bool { return pos > f.From && pos < f.Body }
func (f *Fence) inCode(pos int) bool   { return pos >= f.Body && pos < f.Closing }

// lineAt returns the line that begins at pos, without its end, and the start of
// the next.
func lineAt(text string, pos int) (line string, next int) {
	if i := strings.IndexByte(text[pos:], '\n'); i >= 0 {
		return text[pos : pos+i], pos + i + 1
	}
	return text[pos:], len(text)
}

// opens reads the opening line of a fenced code block.
func opens(line string) (f Fence, ok bool) {
	lead := Containers(line)
	mark, info, ok := markup.OpeningFence(line[lead:])
	return Fence{Indent: blankMarkers(line[:lead]), Mark: mark, Info: info}, ok
}

// Containers returns the length of the quote marks, list markers and spaces that
// a line begins with.
func Containers(line string) int {
	for i := 0; ; {
		rest := line[i:]
		switch n := listMarker(rest); {
		case rest != "" && strings.IndexByte(" \t>", rest[0]) >= 0:
			i++
		case n > 0:
			i += n
		default:
			return i
		}
	}
}

// listMarker returns the length of the list marker that text begins with, such as
// "-" or "12.", or 0. White space must follow.
func listMarker(text string) int {
	const maxDigits = 9 // as CommonMark has it
	n := 0
	for n < len(text) && n < maxDigits && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	marks := ".)"
	if n == 0 {
		marks = "-+*"
	}
	if n+1 < len(text) && strings.IndexByte(marks, text[n]) >= 0 && strings.IndexByte(" \t", text[n+1]) >= 0 {
		return n + 1
	}
	return 0
}

func blankMarkers(lead string) string {
	return strings.Map(func(r rune) rune {
		if r == '>' || r == '\t' {
			return r
		}
		return ' '
	}, lead)
}

// QuoteMarks counts the block quote marks that a line begins with. end is the
// byte after the last mark and one space.
func QuoteMarks(line string) (depth, end int) {
	for i := range len(line) {
		switch line[i] {
		case ' ':
		case '>':
			depth, end = depth+1, i+1
		default:
			return depth, afterSpace(line, end)
		}
	}
	return depth, afterSpace(line, end)
}

func afterSpace(line string, end int) int {
	if end > 0 && end < len(line) && line[end] == ' ' {
		return end + 1
	}
	return end
}

// Unquote removes depth quote marks, and one space after each, from a line. ok is
// false for a line with fewer.
func Unquote(line string, depth int) (rest string, ok bool) {
	for range depth {
		line, ok = strings.CutPrefix(strings.TrimLeft(line, " "), ">")
		if !ok {
			return "", false
		}
		line = strings.TrimPrefix(line, " ")
	}
	return line, true
}
