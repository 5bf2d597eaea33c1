// Package fulltext holds the language part of full-text search as pure functions, without a database.
//
// There are five main functions. [Tokenize] splits a text into the words by which it is indexed, and [RankTokens] returns the
// tokens by which it is ranked. [ParseQuery] splits a query into [Term]s by the same rules. [Rank] sorts the documents that
// an index has found, the best first. [NewSnippet] returns the part of a document that shows why it was found.
//
// Words are compared without case and accents. An identifier such as parseConfig is one word, and its parts are words as
// well. A word also matches its other forms, which have the same stem. In scripts that put no spaces between words, each
// character is a word, and a query looks for characters in their order.
package fulltext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Token is one word of a text.
type Token struct {
	Text       string // the form in the index: without case and accents, at most 64 bytes
	Start, End int    // byte offsets of the word in the text, after its normalization to Unicode's form NFC; End is excluded
	kind       tokenKind
}

// tokenKind says what a token is made of.
type tokenKind int

const (
	noToken     tokenKind = iota
	ofLetters             // letters and digits, with the marks on them
	ofCharacter           // one character of an unspaced script
)

// Join returns the texts of tokens, separated by spaces.
func Join(tokens []Token) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t.Text)
	}
	return b.String()
}

// maxToken is the maximum length of a token in bytes. Longer words are cut. They are data rather than words, and a search
// hardly needs to distinguish two that begin with the same 64 bytes.
const maxToken = 64

// unspaced are the scripts that put no spaces between words, or not between all.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
	unicode.Bopomofo, unicode.Yi, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// accents are the marks that people leave out when they type: combining diacritics, Hebrew points, Arabic vowels.
// The marks of Indic scripts are not among them: they are letters.
var accents = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x0300, Hi: 0x036F, Stride: 1}, {Lo: 0x0591, Hi: 0x05C7, Stride: 1},
	{Lo: 0x064B, Hi: 0x065F, Stride: 1}, {Lo: 0x0670, Hi: 0x0670, Stride: 1},
}}

// Tokenize returns the words of a text in order and, separately, the parts of compound words such as parseConfig, in order, too.
func Tokenize(text string) (words, parts []Token) { return tokenize(norm.NFC.String(text)) }

// tokenize returns what Tokenize does, for a text in Unicode's form NFC.
func tokenize(text string) (words, parts []Token) {
	words = make([]Token, 0, len(text)/6)
	for i := 0; i < len(text); {
		if n := lowerASCIIWord(text[i:]); n > 0 {
			words = append(words, Token{Text: text[i : i+min(n, maxToken)], Start: i, End: i + n, kind: ofLetters})
			i += n
			continue
		}
		kind, size := kindAt(text, i)
		if kind == noToken {
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
			words = append(words, Token{Text: folded, Start: i, End: end, kind: kind})
			if kind == ofLetters {
				parts = appendParts(parts, text, i, end)
			}
		}
		i = end
	}
	return words, parts
}

// lowerASCIIWord returns the length of the first word of a text if the text begins with a word of lower-case ASCII letters
// only, and else 0. Most words are like that: they have no parts, and are indexed unchanged.
func lowerASCIIWord(text string) int {
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

// kindAt returns the kind of token to which the character at i belongs, and the length in bytes of the character with the
// combining marks behind it.
func kindAt(text string, i int) (tokenKind, int) {
	if c := text[i]; c < utf8.RuneSelf {
		if ('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') &&
			(i+1 == len(text) || text[i+1] < utf8.RuneSelf) {
			return ofLetters, 1
		}
	}
	r, size := utf8.DecodeRuneInString(text[i:])
	kind := noToken
	switch {
	case isCommonUnspaced(r):
		kind = ofCharacter
	case !unicode.IsLetter(r) && !unicode.IsNumber(r) || isHalfwidthMark(r): // a mark without a letter is no word
	case r >= 0x0E00 && (unicode.In(r, unspaced...) || r == 'ー' || r == 'ｰ'): // Unicode assigns the long vowel marks to no script
		kind = ofCharacter
	default:
		kind = ofLetters
	}
	for i+size < len(text) {
		r, n := utf8.DecodeRuneInString(text[i+size:])
		if r < 0x0300 || !unicode.IsMark(r) && !isHalfwidthMark(r) {
			break
		}
		size += n
	}
	return kind, size
}

// isHalfwidthMark reports whether r is one of the two sound marks of halfwidth kana, which Unicode counts as letters.
func isHalfwidthMark(r rune) bool { return r == 'ﾞ' || r == 'ﾟ' }

// isCommonUnspaced reports whether r is a common Chinese character, a kana or a Hangul syllable. It is a shortcut for
// the tables in unspaced, which give the same answer more slowly; fold leaves these characters as they are.
func isCommonUnspaced(r rune) bool {
	return 0x4E00 <= r && r <= 0x9FA5 || 0x3041 <= r && r <= 0x3096 || 0x30A1 <= r && r <= 0x30FA || 0xAC00 <= r && r <= 0xD7A3
}

// appendParts adds the parts of the compound word text[start:end]: parse and Config, HTTP and Server, sha and 256.
// A word that is not compound adds none.
func appendParts(parts []Token, text string, start, end int) []Token {
	if end-start > maxToken {
		return parts
	}
	part := start
	before, size := utf8.DecodeRuneInString(text[start:])
	for i := start + size; i < end; {
		r, size := utf8.DecodeRuneInString(text[i:])
		after, _ := utf8.DecodeRuneInString(text[i+size : end])
		if beginsPart(before, r, after) {
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

func appendPart(parts []Token, text string, start, end int) []Token {
	if folded := fold(text[start:end]); folded != "" {
		parts = append(parts, Token{Text: folded, Start: start, End: end, kind: ofLetters})
	}
	return parts
}

// beginsPart reports whether r, between two other characters of a word, begins a new part of it: an upper-case letter behind
// a lower-case one or a digit, the last of several before a lower-case one, and a change between letters and digits.
func beginsPart(before, r, after rune) bool {
	switch {
	case unicode.IsUpper(r):
		return unicode.IsLower(before) || unicode.IsDigit(before) || unicode.IsUpper(before) && unicode.IsLower(after)
	case unicode.IsDigit(r):
		return unicode.IsLetter(before)
	}
	return unicode.IsLetter(r) && unicode.IsDigit(before)
}

// fold returns a word in the form of the index: in Unicode's form NFKC, without case and accents, cut to maxToken bytes. It may
// be empty.
func fold(text string) string {
	if isASCII(text) {
		return strings.ToLower(text[:min(len(text), maxToken)])
	}
	if r, size := utf8.DecodeRuneInString(text); size == len(text) && isCommonUnspaced(r) {
		return text
	}
	if len(text) > 4*maxToken {
		text = strings.ToValidUTF8(text[:4*maxToken], "")
	}
	folded := cases.Fold().String(norm.NFKD.String(text))
	folded = strings.Map(func(r rune) rune {
		if unicode.Is(accents, r) || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) {
			return -1
		}
		return r
	}, folded)
	folded = norm.NFC.String(folded)
	if len(folded) > maxToken {
		folded = strings.ToValidUTF8(folded[:maxToken], "")
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
