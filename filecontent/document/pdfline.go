package document

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// textPiece is a text that one operator of a page has drawn.
type textPiece struct {
	text       string
	start, end float64 // where the piece begins and ends along its line
	base       float64 // position of its line, across the line's direction
	size       float64 // size of its font
}

// textLine is what stands on one line of a page.
type textLine struct {
	direction [2]float64 // in which its text goes on
	pieces    []textPiece
}

// takes reports whether a piece stands on the line. One that stands a little higher or lower is
// a part of it, as in formulas.
func (l textLine) takes(piece textPiece, direction [2]float64) bool {
	last := l.pieces[len(l.pieces)-1]
	sameWay := l.direction[0]*direction[0]+l.direction[1]*direction[1] > 0.99
	return sameWay && math.Abs(piece.base-last.base) < 0.5*max(piece.size, last.size)
}

// wordGap is how far pieces of different words are apart at least, in times the size of
// their font. The space of most fonts has 0.25, and letters are moved by less than 0.15.
const wordGap = 0.2

// String returns the text of the line in the order in which it is read.
func (l textLine) String() string {
	pieces := l.pieces
	isRTL := slices.ContainsFunc(pieces, func(p textPiece) bool { return strings.ContainsFunc(p.text, isRightToLeft) })
	if isRTL { // some programs draw it from the right
		pieces = slices.Clone(pieces)
		slices.SortStableFunc(pieces, func(a, b textPiece) int { return cmp.Compare(a.start, b.start) })
	}
	var b strings.Builder
	for i, p := range pieces {
		if i > 0 {
			before := pieces[i-1]
			gap, size := p.start-before.end, max(p.size, before.size)
			isApart := gap > wordGap*size || gap < -size
			if isApart && !strings.HasSuffix(before.text, " ") && !strings.HasPrefix(p.text, " ") {
				b.WriteByte(' ')
			}
		}
		b.WriteString(p.text)
	}
	text := withoutForms(strings.Trim(b.String(), " "))
	if isRTL {
		return asRead(text)
	}
	return text
}

// isRightToLeft reports whether a letter is of a script that is read from the right.
func isRightToLeft(r rune) bool {
	p, _ := bidi.LookupRune(r)
	return p.Class() == bidi.R || p.Class() == bidi.AL
}

// asRead returns a line that was drawn from left to right in the order in which it is
// read: words of a script that is read from the right are turned around.
func asRead(drawn string) string {
	var left, right int
	for _, r := range drawn {
		switch {
		case isRightToLeft(r):
			right++
		case unicode.IsLetter(r):
			left++
		}
	}
	if left > right {
		return turned(drawn, isRightToLeft)
	}
	return turned(bidi.ReverseString(drawn), func(r rune) bool {
		return !isRightToLeft(r) && (unicode.IsLetter(r) || unicode.IsDigit(r))
	})
}

// turned turns the runs of a line around that begin and end with letters of a kind. What
// stands between two letters of the kind is a part of the run if it is neither a letter
// nor a digit.
func turned(line string, isKind func(rune) bool) string {
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		if !isKind(runes[i]) {
			continue
		}
		end := i
		for j := i + 1; j < len(runes) && (isKind(runes[j]) || !unicode.IsLetter(runes[j]) && !unicode.IsDigit(runes[j])); j++ {
			if isKind(runes[j]) {
				end = j
			}
		}
		copy(runes[i:], []rune(bidi.ReverseString(string(runes[i:end+1]))))
		i = end
	}
	return string(runes)
}

// withoutForms replaces ligatures, and letters in the forms that they have in a word, with
// the letters themselves: nobody searches for the others.
func withoutForms(text string) string {
	isForm := func(r rune) bool {
		return r >= 0xFB00 && r <= 0xFDFF || r >= 0xFE70 && r <= 0xFEFC // Alphabetic and Arabic Presentation Forms
	}
	if !strings.ContainsFunc(text, isForm) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isForm(r) {
			b.WriteString(norm.NFKC.String(string(r)))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// joinLines returns the text of lines. A word that is divided at the end of a line is put
// together.
func joinLines(lines []textLine) string {
	var b strings.Builder
	pending := ""
	for _, l := range lines {
		text := l.String()
		if text == "" {
			continue
		}
		if word, isDivided := dividedWord(pending, text); isDivided {
			pending = word + text
			continue
		}
		if pending != "" {
			b.WriteString(pending)
			b.WriteByte('\n')
		}
		pending = text
	}
	b.WriteString(pending)
	return b.String()
}

// dividedWord returns a line without the hyphen at its end if its last word goes on in the
// next line: both parts are letters, and the second begins with a small one.
func dividedWord(line, next string) (string, bool) {
	rest, hasHyphen := strings.CutSuffix(line, "-")
	for _, other := range []string{"\u2010", "\u00AD"} { // hyphen, soft hyphen
		if !hasHyphen {
			rest, hasHyphen = strings.CutSuffix(line, other)
		}
	}
	before, _ := utf8.DecodeLastRuneInString(rest)
	after, _ := utf8.DecodeRuneInString(next)
	return rest, hasHyphen && unicode.IsLetter(before) && unicode.IsLower(after)
}
