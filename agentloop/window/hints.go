package window

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/conversation"
	"parley/tools"
)

// builtinHints are phrases that refer to what was said long ago, by language, in lower
// case.
var builtinHints = map[string][]string{
	"en": {"as we discussed", "we discussed", "we talked about", "as i said", "i told you", "you said", "you told me", "you mentioned",
		"remember when", "do you remember", "don't you remember", "earlier you", "last time", "go back to", "back to the", "that error",
		"the same error", "what was the", "what did i say", "what did we", "like before", "the other day", "previously"},
	"de": {"wie besprochen", "wie gesagt", "wir haben besprochen", "wir hatten", "hast du gesagt", "hab ich gesagt", "habe ich gesagt",
		"erinnerst du dich", "weißt du noch", "letztes mal", "vorhin", "neulich", "zurück zu", "dieser fehler", "der fehler von", "wie vorher"},
	"fr": {"comme convenu", "comme on a dit", "nous avons discuté", "on avait", "tu as dit", "vous avez dit", "je t'ai dit", "tu te souviens",
		"vous souvenez-vous", "la dernière fois", "revenons à", "cette erreur", "tout à l'heure", "comme avant"},
	"es": {"como hablamos", "como dije", "como acordamos", "me dijiste", "te dije", "dijiste", "recuerdas", "te acuerdas", "la última vez",
		"volvamos a", "ese error", "como antes", "el otro día"},
	"it": {"come abbiamo detto", "come dicevo", "hai detto", "ti ho detto", "ti ricordi", "l'ultima volta", "torniamo a", "quell'errore", "come prima"},
	"pt": {"como discutimos", "como falamos", "como eu disse", "você disse", "eu te disse", "você lembra", "lembra", "da última vez", "voltando a", "aquele erro"},
	"ru": {"как мы обсуждали", "как я говорил", "ты говорил", "вы говорили", "я говорил", "помнишь", "помните", "в прошлый раз", "вернёмся к", "вернемся к", "та ошибка", "как раньше"},
	"zh": {"我们讨论过", "我們討論過", "之前说", "之前說", "刚才说", "剛才說", "上次", "还记得", "還記得", "你说过", "你說過", "我说过", "我說過", "回到", "那个错误", "那個錯誤"},
	"ja": {"前に話した", "さっき", "先ほど", "前回", "覚えて", "言ったよね", "言っていた", "話に戻", "あのエラー", "この前"},
	"ko": {"아까", "지난번", "저번에", "말했던", "얘기했던", "기억나", "기억해", "그 에러", "그 오류", "돌아가서"},
}

// Hints are phrases by which a message refers to something outside the window, folded
// and sorted.
type Hints []string

// NewHints returns the built-in phrases and more.
func NewHints(more []string) Hints {
	var all Hints
	for _, list := range builtinHints {
		all = append(all, list...)
	}
	for _, phrase := range more {
		all = append(all, foldHint(phrase))
	}
	slices.Sort(all) // the hint names the first that fits: the same one each time
	return all
}

// foldHint returns text in lower case, with plain apostrophes and single spaces, for
// comparison.
func foldHint(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(strings.ToLower(text)), " "), "’", "'")
}

// maxHintText is how many bytes of a message are searched. People refer to the past
// in a few words; longer text is mostly pasted.
const maxHintText = 2000

// For returns a hint for the model that a message seems to refer to something that it
// may have to look up, or "" when no message does. The hint is shown in one run only.
func (h Hints) For(users []conversation.Message) string {
	for _, m := range users {
		text := m.Content
		if len(text) > maxHintText {
			text = text[:maxHintText]
		}
		text = foldHint(text)
		for _, phrase := range h {
			if containsWords(text, phrase) {
				return fmt.Sprintf("[The message says %s, which may point at something that is not shown here. "+
					"If so, look it up with %s; scope \"session\" also searches earlier conversations.]", "“"+phrase+"”", tools.RecallName)
			}
		}
	}
	return ""
}

// containsWords reports whether a phrase occurs in a text as whole words, in scripts
// that separate words by spaces.
func containsWords(text, phrase string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], phrase)
		if at < 0 || phrase == "" {
			return false
		}
		begin, end := from+at, from+at+len(phrase)
		if !joinsWord(text[:begin], phrase) && !joinsWord(phrase, text[end:]) {
			return true
		}
		from = end
	}
}

// joinsWord reports whether the last letter of one text and the first letter of the
// next belong to one word. In scripts without spaces they never do.
func joinsWord(before, after string) bool {
	return isSpaced(lastRune(before)) && isSpaced(firstRune(after))
}

func lastRune(text string) rune  { r, _ := utf8.DecodeLastRuneInString(text); return r }
func firstRune(text string) rune { r, _ := utf8.DecodeRuneInString(text); return r }

// isSpaced reports whether a rune is a letter of a script that separates words by
// spaces. Korean does, but counts as one that does not, since it appends particles
// to its words.
func isSpaced(r rune) bool {
	return unicode.IsLetter(r) && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}
