// Package markdown prepares the text of a reply for platforms: it splits the text
// into messages, finds its code blocks, and lays out its tables.
package markdown

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

// Count returns the length of text in units.
func (u Units) Count(text string) int {
	n := 0
	for _, r := range text {
		n += u(r)
	}
	return n
}

// Range is a range of a text in bytes, from From to To, exclusive.
type Range struct{ From, To int }

// Split cuts markdown into parts of at most limit units each, at the best places:
// between paragraphs, lines, sentences or words, and last of all between
// characters. It cuts no short link, code or emphasised text in two. It closes a
// code block that a cut falls into and opens it again with its language, and
// quotes the rest of a quoted line again. Only white space
// at the cuts is lost. No part is blank; blank markdown has no parts. The limit
// must leave room for a fence: 64 units are enough.
func Split(markdown string, limit int, units Units) []string {
	if len(markdown)*maxUnitsPerByte(units) <= limit {
		if isBlank(markdown) {
			return nil
		}
		return []string{markdown}
	}
	s := splitter{text: markdown, limit: limit, units: units}
	s.findFences()
	s.enter(0)
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

// maxUnitsPerByte returns a bound of the units of a byte, so that short texts
// need no counting.
func maxUnitsPerByte(units Units) int {
	return max(1, units('a'), units('é'), units('€'), units('😀'))
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

type splitter struct {
	text   string
	limit  int
	units  Units
	fences []Fence
	code   []Range // the ranges of fences, for Cut

	seen  int    // offset up to which the text was searched for line ends
	body  int    // offset at which the text of the line at seen begins, behind its quote marks
	quote string // the quote marks of the line at seen
}

// findFences finds the blocks to close and open again, without those whose
// opening line would fill too much of a part.
func (s *splitter) findFences() {
	for _, f := range Fences(s.text) {
		if s.isShort(f.opener()) {
			s.fences = append(s.fences, f)
			s.code = append(s.code, f.Range)
		}
	}
}

// isShort reports whether a line may be repeated in every part.
func (s *splitter) isShort(line string) bool { return s.units.Count(line) < s.limit/8 }

// enter notes the quote marks of the line that begins at pos.
func (s *splitter) enter(pos int) {
	line, _ := lineAt(s.text, pos)
	_, end := QuoteMarks(line)
	s.body, s.quote = pos+end, ""
	if s.isShort(line[:end]) {
		s.quote = line[:end]
	}
}

// quoteAt returns the quote marks to repeat at pos, when those of its line are in
// an earlier part. Positions must grow.
func (s *splitter) quoteAt(pos int) string {
	if i := strings.LastIndexByte(s.text[s.seen:pos], '\n'); i >= 0 {
		s.enter(s.seen + i + 1)
	}
	s.seen = pos
	if pos < s.body {
		return ""
	}
	return s.quote
}

// part returns the part that begins at pos, and where the next one begins.
func (s *splitter) part(pos int) (part string, next int) {
	head := s.quoteAt(pos)
	if f := s.fenceAt(pos); f != nil && f.inCode(pos) {
		head = f.opener() + "\n" + head
	}
	for tail := ""; ; {
		room := s.limit - s.units.Count(head) - s.units.Count(tail)
		end, next := Cut(s.text, pos, room, s.units, s.code)
		f := s.fenceAt(end)
		if f != nil && f.inOpener(end) && f.From > pos {
			end, next, f = f.From, f.From, nil
		}
		if f == nil || !f.inCode(end) {
			if f == nil || !f.inOpener(end) {
				end, next = s.beforeSpan(pos, end, next, room)
			}
			return head + s.text[pos:end], next
		}
		if len(f.closer()) < len(tail) {
			if next >= f.Closing {
				next = f.To // the closing line is all that is left, and it is written here
			}
			return head + strings.TrimRight(s.text[pos:end], "\n") + "\n" + f.closer(), next
		}
		tail = "\n" + f.closer() // cut again, with room for it
	}
}

// fenceAt returns the last fence that begins at or before pos.
func (s *splitter) fenceAt(pos int) *Fence {
	i, found := slices.BinarySearchFunc(s.fences, pos, func(f Fence, pos int) int { return f.From - pos })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return &s.fences[i]
}
