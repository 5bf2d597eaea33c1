package markdown

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Places to cut at, best first. A worse place is taken when the better ones
// would leave the part too short.
const (
	cutParagraph = iota
	cutLine
	cutSentence
	cutWord
	cutPlaces
)

// shortest is the part of the limit, as a divisor, that must be filled before a
// part may end at each kind of place.
var shortest = [cutPlaces]int{cutParagraph: 4, cutLine: 3, cutSentence: 3, cutWord: 4}

// Cut returns where a part ends that begins at byte from and has at most limit
// units, and where the next part begins: after the white space at the cut. It
// cuts at the last good place that fits. Blank lines in the ranges of code, which
// are in order, count as lines only. A part holds at least one rune, and ends
// within a character of several runes only when that alone exceeds the limit.
func Cut(text string, from, limit int, units Units, code []Range) (end, next int) {
	var best [cutPlaces]int
	used, last := 0, rune(0)
	heading := false // this line, or the last one that is not blank
	i, _ := slices.BinarySearchFunc(code, from, func(r Range, pos int) int { return r.To - pos })
	code = code[i:]
	for i, r := range text[from:] {
		pos := from + i
		for len(code) > 0 && code[0].To <= pos {
			code = code[1:]
		}
		inCode := len(code) > 0 && code[0].From < pos
		if (pos == from || last == '\n') && r != '\n' {
			heading = r == '#' && !inCode
		}
		if place, ok := placeOf(text, pos, last, r, inCode, heading); ok && pos > from && used*shortest[place] >= limit {
			best[place] = pos
		}
		if used += units(r); used > limit {
			return cutAt(text, Range{from, pos + max(1, utf8.RuneLen(r))}, limit, units, best)
		}
		last = r
	}
	return len(text), len(text)
}

// placeOf returns the kind of place before the rune r at pos, which follows the
// rune last. A heading stays with the text below it where possible.
func placeOf(text string, pos int, last, r rune, inCode, heading bool) (place int, ok bool) {
	switch {
	case r == '\n' && heading:
		return cutWord, true
	case r == '\n' && !inCode && blankLineAfter(text, pos):
		return cutParagraph, true
	case r == '\n':
		return cutLine, true
	case unicode.IsSpace(r) && !inCode && strings.ContainsRune(".!?…:;", last):
		return cutSentence, true
	case unicode.IsSpace(r):
		return cutWord, true
	case strings.ContainsRune("。！？", last):
		return cutSentence, true
	}
	return 0, false
}

// blankLineAfter reports whether the line end at pos is followed by a blank line.
func blankLineAfter(text string, pos int) bool {
	rest := strings.TrimLeft(text[pos+1:min(len(text), pos+80)], " \t")
	return strings.HasPrefix(rest, "\n")
}

// cutAt returns the best place that was seen, or else the last boundary between
// characters that fits. The seen range ends with the first rune that does not
// fit.
func cutAt(text string, seen Range, limit int, units Units, best [cutPlaces]int) (end, next int) {
	for place, pos := range best {
		switch {
		case pos == 0:
			continue
		case place == cutParagraph:
			return pos, afterBlankLines(text, pos)
		case place == cutLine:
			return pos, pos + 1
		}
		return pos, pos + len(text[pos:]) - len(strings.TrimLeftFunc(text[pos:], isBlankInLine))
	}
	end = seen.From + lastCharacter(text[seen.From:min(seen.To, len(text))], limit, units)
	return end, end
}

func isBlankInLine(r rune) bool { return r != '\n' && unicode.IsSpace(r) }

// afterBlankLines returns where the first line after pos begins that is not
// blank. It keeps its indentation.
func afterBlankLines(text string, pos int) int {
	body := len(text) - len(strings.TrimLeftFunc(text[pos:], unicode.IsSpace))
	return pos + 1 + strings.LastIndexByte(text[pos+1:body], '\n') + 1
}

// lastCharacter returns the end of the last grapheme cluster of text that fits;
// when none does, that of the last rune that fits, or of the first rune.
func lastCharacter(text string, limit int, units Units) int {
	end, used, state := 0, 0, -1
	for rest := text; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used += units.Count(cluster); used > limit {
			break
		}
		end += len(cluster)
	}
	if end > 0 {
		return end
	}
	used = 0
	for i, r := range text {
		if used += units(r); used > limit && i > 0 {
			return i
		}
	}
	_, size := utf8.DecodeRuneInString(text)
	return size
}
