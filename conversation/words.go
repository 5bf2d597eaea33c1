package conversation

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Texts and queries are cut into the same words, so that one finds the other:
// without case and accents, identifiers also by their parts, and scripts that
// set no spaces between words as single characters, which a query asks for in
// their order. Pairs of characters would be rarer, but take more room than the
// text itself.

// word is one word of a text.
type word struct {
	text       string // as it is indexed
	start, end int    // of it in the text, bytes
	kind       wordKind
}

// maxWord is how many bytes of a word are looked at: longer ones are no words
// but data, and two that begin alike are hardly looked for by what follows.
const maxWord = 64

// unspaced are the scripts whose words are not, or not always, set apart.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
	unicode.Bopomofo, unicode.Yi, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// accents are marks that people leave out when they type: combining diacritics,
// Hebrew points, Arabic vowels. The marks of Indic scripts are letters of theirs.
var accents = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x0300, Hi: 0x036F, Stride: 1}, {Lo: 0x0591, Hi: 0x05C7, Stride: 1},
	{Lo: 0x064B, Hi: 0x065F, Stride: 1}, {Lo: 0x0670, Hi: 0x0670, Stride: 1},
}}

// cutWords gives the words of a text in order and, apart, the parts of those
// that are put together, as parseConfig. The text is in Unicode's form NFC.
func cutWords(text string) (words, parts []word) {
	words = make([]word, 0, len(text)/6)
	for i := 0; i < len(text); {
		if n := smallLetters(text[i:]); n > 0 {
			words = append(words, word{text: text[i : i+min(n, maxWord)], start: i, end: i + n, kind: ofLetters})
			i += n
			continue
		}
		kind, size := kindAt(text, i)
		if kind == noWord {
			i += size
			continue
		}
		end := i + size
		for kind == ofLetters && end < len(text) {
			next, size := kindAt(text, end)
			if next != kind {
				break
			}
			end += size
		}
		if folded := fold(text[i:end]); folded != "" {
			words = append(words, word{text: folded, start: i, end: end, kind: kind})
			if kind == ofLetters {
				parts = appendParts(parts, text, i, end)
			}
		}
		i = end
	}
	return words, parts
}

// smallLetters is how long the word is that a text begins with, if it is of
// small ASCII letters alone, as most are: it has no parts, and is indexed as it
// stands. Else 0.
func smallLetters(text string) int {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z':
		case c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
			return 0
		default:
			return i
		}
	}
	return len(text)
}

type wordKind int

const (
	noWord      wordKind = iota
	ofLetters            // letters, digits and what belongs to them
	ofCharacter          // one character of an unspaced script
)

// kindAt says what the character at i is part of, and how many bytes it has
// with the marks on it.
func kindAt(text string, i int) (wordKind, int) {
	if c := text[i]; c < utf8.RuneSelf {
		if ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') &&
			(i+1 == len(text) || text[i+1] < utf8.RuneSelf) {
			return ofLetters, 1
		}
	}
	r, size := utf8.DecodeRuneInString(text[i:])
	kind := noWord
	switch {
	case isPlain(r):
		kind = ofCharacter
	case !unicode.IsLetter(r) && !unicode.IsNumber(r) || r == halfwidthVoiced || r == halfwidthSemiVoiced: // marks without a letter too
	case r >= 0x0E00 && (unicode.In(r, unspaced...) || r == 'ー' || r == 'ｰ'): // the marks of long vowels have no script
		kind = ofCharacter
	default:
		kind = ofLetters
	}
	for i+size < len(text) {
		r, n := utf8.DecodeRuneInString(text[i+size:])
		if r < 0x0300 || !unicode.IsMark(r) && r != halfwidthVoiced && r != halfwidthSemiVoiced {
			break
		}
		size += n
	}
	return kind, size
}

// The sound marks of halfwidth kana are letters to Unicode.
const (
	halfwidthVoiced     = 'ﾞ'
	halfwidthSemiVoiced = 'ﾟ'
)

// isPlain says whether a character is a word of its own as it stands: common
// Chinese characters, kana and syllables of Hangul. The tables would say the
// same of them, more slowly.
func isPlain(r rune) bool {
	return 0x4E00 <= r && r <= 0x9FA5 || 0x3041 <= r && r <= 0x3096 || 0x30A1 <= r && r <= 0x30FA || 0xAC00 <= r && r <= 0xD7A3
}

// appendParts adds the parts of a word in which letters change from small to
// capital, or to digits and back: parse and Config, HTTP and Server, sha and
// 256. A word of one part adds none.
func appendParts(parts []word, text string, start, end int) []word {
	if end-start > maxWord {
		return parts
	}
	part := start
	before, size := utf8.DecodeRuneInString(text[start:])
	for i := start + size; i < end; {
		r, size := utf8.DecodeRuneInString(text[i:])
		after, _ := utf8.DecodeRuneInString(text[i+size : end])
		if joint(before, r, after) {
			parts = appendPart(parts, text, part, i)
			part = i
		}
		before = r
		i += size
	}
	if part > start {
		parts = appendPart(parts, text, part, end)
	}
	return parts
}

func appendPart(parts []word, text string, start, end int) []word {
	if folded := fold(text[start:end]); folded != "" {
		parts = append(parts, word{text: folded, start: start, end: end, kind: ofLetters})
	}
	return parts
}

// joint says whether a part of an identifier begins with r.
func joint(before, r, after rune) bool {
	switch {
	case unicode.IsUpper(r):
		return unicode.IsLower(before) || unicode.IsDigit(before) || unicode.IsUpper(before) && unicode.IsLower(after)
	case unicode.IsDigit(r):
		return unicode.IsLetter(before)
	}
	return unicode.IsLetter(r) && unicode.IsDigit(before)
}

// fold is a word as it is indexed: compatible forms made one, small letters,
// no accents.
func fold(text string) string {
	if isASCII(text) {
		return strings.ToLower(text[:min(len(text), maxWord)])
	}
	if r, size := utf8.DecodeRuneInString(text); size == len(text) && isPlain(r) {
		return text
	}
	if len(text) > 4*maxWord {
		text = strings.ToValidUTF8(text[:4*maxWord], "")
	}
	folded := cases.Fold().String(norm.NFKD.String(text))
	folded = strings.Map(func(r rune) rune {
		if unicode.Is(accents, r) || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) {
			return -1
		}
		return r
	}, folded)
	folded = norm.NFC.String(folded)
	if len(folded) > maxWord {
		folded = strings.ToValidUTF8(folded[:maxWord], "")
	}
	return folded
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
