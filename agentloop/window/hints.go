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
		"like i mentioned", "as i mentioned", "i mentioned", "remember when", "do you remember", "don't you remember", "earlier", "last time",
		"go back to", "back to the", "that error", "the same error", "that file", "that function", "that thing", "what was the", "what did i say",
		"what did we", "what we did", "what we said", "we already", "i already", "like before", "as before", "the previous", "previously",
		"the other day"},
	"de": {"wie besprochen", "wie gesagt", "wie erwähnt", "wir haben besprochen", "wir hatten", "wir haben schon", "haben wir schon",
		"haben wir bereits", "was wir gemacht", "was haben wir", "hast du gesagt", "hab ich gesagt", "habe ich gesagt", "erinnerst du dich",
		"weißt du noch", "letztes mal", "vorhin", "neulich", "früher", "zurück zu", "dieser fehler", "der fehler von", "diese datei",
		"die datei von", "diese funktion", "die funktion von", "dieses ding", "das ding von", "wie vorher", "wie zuvor", "der vorherige",
		"die vorherige", "das vorherige", "den vorherigen"},
	"fr": {"comme convenu", "comme on a dit", "comme je l'ai dit", "comme je l'ai mentionné", "nous avons discuté", "on avait", "on a déjà",
		"nous avons déjà", "ce qu'on a fait", "ce que nous avons fait", "tu as dit", "vous avez dit", "je t'ai dit", "tu te souviens",
		"vous souvenez-vous", "la dernière fois", "plus tôt", "revenons à", "cette erreur", "ce fichier", "cette fonction", "cette chose",
		"ce truc", "tout à l'heure", "comme avant", "le précédent", "la précédente"},
	"es": {"como hablamos", "como dije", "como mencioné", "como acordamos", "me dijiste", "te dije", "dijiste", "recuerdas", "te acuerdas",
		"la última vez", "volvamos a", "ese error", "ese archivo", "ese fichero", "esa función", "esa cosa", "lo que hicimos", "qué hicimos",
		"ya hemos", "ya habíamos", "como antes", "anteriormente", "el anterior", "la anterior", "el otro día"},
	"it": {"come abbiamo detto", "come dicevo", "come ho detto", "come ho accennato", "hai detto", "ti ho detto", "ti ricordi", "l'ultima volta",
		"torniamo a", "quell'errore", "quel file", "quella funzione", "quella cosa", "quello che abbiamo fatto", "cosa abbiamo fatto",
		"abbiamo già", "come prima", "in precedenza", "il precedente", "la precedente"},
	"pt": {"como discutimos", "como falamos", "como eu disse", "como mencionei", "como eu mencionei", "você disse", "eu te disse", "você lembra",
		"lembra", "da última vez", "voltando a", "aquele erro", "aquele arquivo", "aquele ficheiro", "aquela função", "aquela coisa",
		"o que fizemos", "já fizemos", "nós já", "como antes", "anteriormente", "o anterior", "a anterior"},
	"ru": {"как мы обсуждали", "как я говорил", "как я упоминал", "ты говорил", "вы говорили", "я говорил", "помнишь", "помните", "в прошлый раз",
		"ранее", "раньше", "вернёмся к", "вернемся к", "та ошибка", "тот файл", "том файле", "ту функцию", "та функция", "ту штуку", "та штука",
		"что мы делали", "что мы сделали", "мы уже", "как раньше", "как прежде", "предыдущий", "предыдущая", "предыдущее"},
	"zh": {"我们讨论过", "我們討論過", "之前", "刚才说", "剛才說", "先前", "上次", "还记得", "還記得", "你说过", "你說過", "我说过", "我說過", "我提到", "我提過",
		"回到", "那个错误", "那個錯誤", "那个文件", "那個檔案", "那个函数", "那個函式", "那个东西", "那個東西", "我们做了什么", "我們做了什麼",
		"我们已经", "我們已經", "跟以前一样", "跟以前一樣", "像以前", "前一个", "前一個", "上一个", "上一個"},
	"ja": {"前に話した", "前に言った", "さっき", "先ほど", "以前", "前回", "覚えて", "言ったよね", "言っていた", "言ったように", "話に戻", "あのエラー",
		"あのファイル", "あの関数", "あれは", "あの件", "私たちがやった", "何をした", "もうやった", "すでに", "前と同じ", "前のよう", "ひとつ前", "一つ前", "この前"},
	"ko": {"아까", "지난번", "저번에", "이전에", "이전처럼", "이전의", "말했던", "말했듯", "언급했", "얘기했던", "기억나", "기억해", "그 에러", "그 오류",
		"그 파일", "그 함수", "그거", "그것", "우리가 한", "우리가 했던", "우리가 이미", "이미 우리", "전처럼", "돌아가서"},
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
