package fulltext

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
)

// stemmer is a Snowball algorithm: https://snowballstem.org.
type stemmer func(*snowballstem.Env) bool

type language struct {
	stem     stemmer
	frequent string // its most frequent words, folded and separated by spaces
}

// languages are the languages in Latin script whose words are stemmed. Words in Cyrillic script are stemmed as Russian.
var languages = []language{
	{english.Stem, "the be to of and a in that have it for not on with he as you do at this but his by from they we say her she or an will my one all would there their what is are was were did does has had how when where who i me your can"},
	{german.Stem, "der die das und ist nicht ein eine zu in den mit von sich des auf fur im dem es ich du er sie wir ihr hat war wie was wer wann wo auch an als so dass aber mir dich mich bei nach um noch sind haben"},
	{french.Stem, "le la les de des du et est un une que qui dans ce il elle je tu nous vous ne pas pour sur se au aux avec son sa ses mais ou par quoi quand comment a ai ont etait sont cette mon ma en y plus"},
	{spanish.Stem, "el la los las de del y es un una que en se no por con para su lo al como mas pero sus le ya o este si porque esta cuando muy sin sobre mi me yo tu fue ha donde quien hay era son"},
	{italian.Stem, "il lo la i gli le di del della e un una che in non si per con su al da come ma ho hai ha sono era mi ti ci io tu lui lei noi anche piu questo questa dove quando chi cosa nel alla dei delle"},
	{portuguese.Stem, "o a os as de do da dos das e um uma que em no na nao se por com para ao mais mas como foi ele ela eu voce nos isso este esta quando onde quem tem seu sua ou ser pelo pela era sao"},
	{dutch.Stem, "de het een en van ik te dat die in je niet zijn is was op aan met als voor had er maar om hem dan zou of wat mijn men dit zo door over ze bij ook tot uit wij hoe waar wie wanneer heeft hebben"},
	{swedish.Stem, "och i att det som en pa ar av for med den till ett om var jag han hon vi du inte de sa har men sig ska nar vad vem hur fran eller kan min mitt dig mig ocksa detta denna"},
}

// frequent maps each frequent word to its languages, which are indexes of the list languages.
var frequent = func() map[string][]int {
	words := map[string][]int{}
	for i, l := range languages {
		for _, word := range strings.Fields(l.frequent) {
			words[word] = append(words[word], i)
		}
	}
	return words
}()

// maxUnguessed is the maximum number of words of a text without frequent words that is stemmed in all languages. A longer text
// without any of them is probably in another language, and its words in Latin script are not stemmed.
const maxUnguessed = 20

// stemmersOf guesses the language of a text by its frequent words, and returns its stemmer. If several languages are equally
// likely, it returns the stemmers of all of them, since texts and queries may be too short to decide.
func stemmersOf(words []Token) (list []stemmer) {
	counts := make([]int, len(languages))
	for _, w := range words {
		for _, i := range frequent[w.Text] {
			counts[i]++
		}
	}
	most := slices.Max(counts)
	if most == 0 && len(words) > maxUnguessed {
		return nil
	}
	for i, l := range languages {
		if counts[i] == most {
			list = append(list, l.stem)
		}
	}
	return list
}

const maxStemmed = 40 // bytes of a word; longer ones are hardly words of a language, and are not stemmed

// stemsOf returns what a word of a text is ranked by: the word itself, folded, and its stems by each stemmer, without
// duplicates. latin are the stemmers for words in Latin script.
func stemsOf(text string, word Token, latin []stemmer) []string {
	list := []string{word.Text}
	raw := text[word.Start:word.End]
	if len(raw) > maxStemmed {
		return list
	}
	stemmers := latin
	switch r, _ := utf8.DecodeRuneInString(raw); {
	case unicode.Is(unicode.Cyrillic, r):
		stemmers = []stemmer{russian.Stem}
	case !unicode.Is(unicode.Latin, r):
		return list
	}
	raw = strings.ToLower(raw)
	for _, stem := range stemmers {
		env := snowballstem.NewEnv(raw)
		stem(env)
		if stemmed := fold(env.Current()); stemmed != "" && !slices.Contains(list, stemmed) {
			list = append(list, stemmed)
		}
	}
	return list
}
