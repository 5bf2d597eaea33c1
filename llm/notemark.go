package llm

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// What somebody else writes must not be taken for a note of the gateway. Its marks are
// therefore recognised however they are written: in capitals, with spaces, signs and
// characters that are not seen between the letters, and in letters that look like those of
// the mark.

// markName is the name in a mark, without the underscore.
const markName = "gatewaynote"

// lookalikes are the characters that look like a letter of markName, in lower case and
// without accents, by Unicode's list: https://www.unicode.org/reports/tr39/#Confusable_Detection.
// Small capitals are added, and a few that people use in this way. Letters of other widths
// and styles are not in it, since they decompose into the letter.
var lookalikes = map[byte]string{
	'g': "ƍǥɠɡɢԍցᏻᶃꓖꮐ",
	'a': "ɑαаᗅᴀ⍶⍺ꓮꭺ𐊠𖽀",
	't': "ŧƭʈτтҭᴛᵵ₮⊤⍡⟙ⱦⲧꓔꭲ𐊗𐊱𐌕𑣜𖼊🝨",
	'e': "ɇεеєҽҿᴇ℮⋿ⴹꓰꬲꭼ𐊆𑣆𑣎",
	'w': "ɯωѡѽԝաᴡ₩ꓪꝡꮃꮤ𑓅𑜊𑜎𑜏𑣦𑣯",
	'y': "¥ƴɏɣʏγυуүұყᶌỿⲩꓬꭚꭹꮍ𐊲𑣄𑣜𖽃",
	'n': "ƞɲɳɴηνпոռᵰⲛꓠ𐆎𐔓",
	'o': "0øɵθοσоѳөօסه٥ھہە۵ۿ߀०০੦૦ଠ୦௦౦೦ഠ൦๐໐တဝ၀ჿዐᴏᴑ⊖⊝⍬ⲟⴱⵁⵔ〇ꓳꝋꬽꬾꭴꮎꮻ𐊒𐊫𐐬𐓪𐔖𑓐𑣈𑣕𑣗𑣠𝈚🜔",
}

// isMarkBracket reports whether a mark may begin with a character: "<" and what looks
// like it, also in other widths.
func isMarkBracket(r rune) bool {
	switch r {
	case '<', '＜', '﹤', '‹', '❮', '˂', '𝈶', 'ᐸ', 'ᚲ', '〈', '\u2329', '⟨', '❬', '≺', '⋖', '«', '《', '⟪', '≪':
		return true
	}
	return false
}

// escapedBracket is "<" as HTML writes it.
const escapedBracket = "&lt;"

// withoutMarks returns text in which nothing can be taken for a mark of a note: what a mark
// begins with becomes a parenthesis.
func withoutMarks(text string) string {
	var b strings.Builder
	written := 0
	for at, r := range text {
		size := 0
		switch {
		case r < utf8.RuneSelf && r != '<' && r != '&': // the common case
			continue
		case r == '&' && strings.HasPrefix(text[at:], escapedBracket):
			size = len(escapedBracket)
		case isMarkBracket(r):
			size = utf8.RuneLen(r)
		}
		if size > 0 && isMark(text[at+size:]) {
			b.WriteString(text[written:at] + "(")
			written = at + size
		}
	}
	if written == 0 {
		return text
	}
	return b.String() + text[written:]
}

// isMark reports whether text, which follows a bracket, makes a mark of a note.
func isMark(text string) bool {
	name := markName
	for _, r := range text {
		if r == '>' || r == '(' || isMarkBracket(r) {
			return false
		}
		for _, r := range plainLetters(r) {
			switch {
			case r == rune(name[0]) || strings.ContainsRune(lookalikes[name[0]], r):
				if name = name[1:]; name == "" {
					return true
				}
			case r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)):
				return false
			}
		}
	}
	return false
}

// plainLetters returns what a character is made of, in lower case and without accents.
func plainLetters(r rune) string {
	switch {
	case r < utf8.RuneSelf:
		return string(unicode.ToLower(r))
	case r >= '🅐' && r <= '🅩':
		r = r - '🅐' + 'a'
	case r >= '🅰' && r <= '🆉':
		r = r - '🅰' + 'a'
	case r >= '🇦' && r <= '🇿':
		r = r - '🇦' + 'a'
	}
	return strings.ToLower(norm.NFKD.String(string(r)))
}
