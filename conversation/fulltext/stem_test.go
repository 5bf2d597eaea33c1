package fulltext

import (
	"slices"
	"strings"
	"testing"
)

// A query finds other forms of its words, whether or not the languages of query and text can be guessed.
func TestFormsOfAWordHaveATokenInCommon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, query string }{
		{"We were repairing the bicycles", "repaired bicycle"},
		{"Repairing bicycles", "who repaired the bicycle?"},
		{"Die Häuser wurden verkauft", "Haus"},
		{"Alte Häuser", "wo ist das Haus"},
		{"Les réparations sont finies", "la réparation"},
		{"Las canciones de la fiesta", "canción"},
		{"Она купила велосипеды", "велосипед"},
		{"Le biciclette sono nuove", "la bicicletta"},
		{"De fietsen zijn nieuw", "fiets"},
		{"As canções são novas", "canções"},
		{"Un café à Liège", "cafe"},
		{"call parseConfigs first", "config"},
	} {
		tokens := RankTokens(c.text)
		for _, term := range ParseQuery(c.query) {
			found := false
			for level := range Levels {
				found = found || slices.ContainsFunc(term.RankTokens(level), func(token string) bool { return slices.Contains(tokens, token) })
			}
			if word := term.Phrases[0][0]; !found && len(word) > 3 {
				t.Errorf("%q has no form of %q: %q", c.text, word, tokens)
			}
		}
	}
}

func TestImpactFallsWithTheLengthOfTheText(t *testing.T) {
	t.Parallel()
	level := func(text string) int {
		for level := range Levels {
			if slices.Contains(RankTokens(text), AtLevel("port", level)) {
				return level
			}
		}
		return Levels
	}
	filler := strings.Repeat("blah ", 200)
	short, middle, long := level("the port"), level("the port "+filler[:250]), level("the port "+filler)
	if short >= middle || middle >= long || long >= Levels {
		t.Errorf("levels %d, %d and %d", short, middle, long)
	}
	if often := level(strings.Repeat("port ", 50) + filler); often >= long {
		t.Errorf("often in a long text: level %d, once: %d", often, long)
	}
}

func TestScriptsWithoutSpacesAreNotRankedByTokens(t *testing.T) {
	t.Parallel()
	if tokens := RankTokens("数据库"); len(tokens) > 0 {
		t.Errorf("%q", tokens)
	}
	if term := ParseQuery("数")[0]; term.RankTokens(0) != nil {
		t.Errorf("%q", term.RankTokens(0))
	}
}

func TestSnippetMarksOtherForms(t *testing.T) {
	t.Parallel()
	got := NewSnippet("Anna was buying the old bicycles there", ParseQuery("who buys a bicycle?")).Mark("[", "]")
	if want := "Anna was [buying] the old [bicycles] there"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
