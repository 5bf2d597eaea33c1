package channels

import (
	"slices"
	"strings"
)

// Units is what one rune counts against a platform's limit on a message.
type Units func(r rune) int

// UTF16 counts UTF-16 code units: two for everything beyond the basic plane.
func UTF16(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}

// Count is the length of text in units.
func (u Units) Count(text string) int {
	n := 0
	for _, r := range text {
		n += u(r)
	}
	return n
}

// Range is a stretch of a text in bytes: from From up to, not including, To.
type Range struct{ From, To int }

// Split cuts markdown into parts of at most limit units each, at the best
// places there are: between paragraphs, lines, sentences, words, and at last
// between characters. A code fence that a cut falls into is closed and opened
// again with its language. Nothing but white space at the cuts is lost. Parts
// are never blank; blank markdown has none. The limit must leave room for a
// fence, 64 units are enough.
func Split(markdown string, limit int, units Units) []string {
	if len(markdown)*maxUnitsPerByte(units) <= limit {
		if isBlank(markdown) {
			return nil
		}
		return []string{markdown}
	}
	s := splitter{text: markdown, limit: limit, units: units, fences: findFences(markdown, limit/8, units)}
	for _, f := range s.fences {
		s.code = append(s.code, f.Range)
	}
	var parts []string
	for pos := 0; pos < len(markdown); {
		part, next := s.part(pos)
		if !isBlank(part) {
			parts = append(parts, part)
		}
		pos = next
	}
	return parts
}

// maxUnitsPerByte bounds the units of a text by its bytes, so that short
// texts need no counting.
func maxUnitsPerByte(units Units) int {
	return max(1, units('a'), units('é'), units('€'), units('😀'))
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

type splitter struct {
	text   string
	limit  int
	units  Units
	fences []fence
	code   []Range // the same, for Cut
}

// part makes the part that begins at pos, and says where the next one begins.
func (s *splitter) part(pos int) (part string, next int) {
	head := ""
	if f := s.fenceAt(pos); f != nil && f.inCode(pos) {
		head = f.opener + "\n"
	}
	for tail := ""; ; {
		room := s.limit - s.units.Count(head) - s.units.Count(tail)
		end, next := Cut(s.text, pos, room, s.units, s.code)
		f := s.fenceAt(end)
		if f != nil && f.inOpener(end) && f.From > pos {
			end, next, f = f.From, f.From, nil
		}
		if f == nil || !f.inCode(end) {
			return head + s.text[pos:end], next
		}
		if len(f.closer) < len(tail) {
			if next >= f.closing {
				next = f.To // the closing line is all that is left, and it is written here
			}
			return head + strings.TrimRight(s.text[pos:end], "\n") + "\n" + f.closer, next
		}
		tail = "\n" + f.closer // cut again, with room for it
	}
}

// fenceAt is the last fence that begins at or before pos.
func (s *splitter) fenceAt(pos int) *fence {
	i, found := slices.BinarySearchFunc(s.fences, pos, func(f fence, pos int) int { return f.From - pos })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return &s.fences[i]
}

// fence is one fenced code block, its opening and closing lines included.
type fence struct {
	Range
	body    int    // where the code begins, after the opening line
	closing int    // where the closing line begins; To when there is none
	opener  string // the opening line
	closer  string // a line that closes it
}

func (f *fence) inOpener(pos int) bool { return pos > f.From && pos < f.body }
func (f *fence) inCode(pos int) bool   { return pos >= f.body && pos < f.closing }

// findFences finds the fenced code blocks of a markdown text in order. A
// block whose opening line is longer than widest counts as text.
func findFences(text string, widest int, units Units) []fence {
	var fences []fence
	var open *fence
	for pos := 0; pos < len(text); {
		line, next := lineAt(text, pos)
		switch {
		case open != nil && closes(line, open.closer):
			open.closing, open.To = pos, pos+len(line)
			fences, open = append(fences, *open), nil
		case open == nil:
			if closer, ok := opens(line); ok && units.Count(line)+1 <= widest {
				open = &fence{Range: Range{From: pos}, body: next, opener: line, closer: closer}
			}
		}
		pos = next
	}
	if open != nil {
		open.closing, open.To = len(text), len(text)
		fences = append(fences, *open)
	}
	return fences
}

// lineAt is the line that begins at pos, without its end, and the start of the next.
func lineAt(text string, pos int) (line string, next int) {
	if i := strings.IndexByte(text[pos:], '\n'); i >= 0 {
		return text[pos : pos+i], pos + i + 1
	}
	return text[pos:], len(text)
}

// opens reports whether a line opens a fenced code block, and the line that
// closes it. Any indentation will do, for blocks in lists.
func opens(line string) (closer string, ok bool) {
	code := strings.TrimLeft(line, " ")
	if code == "" || code[0] != '`' && code[0] != '~' {
		return "", false
	}
	mark := code[:1]
	info := strings.TrimLeft(code, mark)
	n := len(code) - len(info)
	if n < 3 || mark == "`" && strings.Contains(info, "`") {
		return "", false
	}
	return line[:len(line)-len(info)], true
}

// closes reports whether a line closes the block that closer would close.
func closes(line, closer string) bool {
	mark := closer[len(closer)-1:]
	line, closer = strings.TrimSpace(line), strings.TrimLeft(closer, " ")
	return len(line) >= len(closer) && strings.Trim(line, mark) == ""
}
