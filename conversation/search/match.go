package search

import (
	"strings"

	"parley/conversation/fulltext"
)

// What the index is asked, in the syntax of FTS5: https://www.sqlite.org/fts5.html, section 3. The words of terms
// consist of letters, digits and marks, so none needs escaping.

// matchTerm returns the expression that matches messages with a term.
func matchTerm(t fulltext.Term) string {
	var phrases []string
	for _, p := range t.Phrases {
		text := `"` + strings.Join(p, " ") + `"`
		if t.Prefix {
			text += " *"
		}
		phrases = append(phrases, text)
	}
	return "(" + strings.Join(phrases, " OR ") + ")"
}

// maxPhraseSteps is how many words of a phrase are looked for before the phrase itself.
const maxPhraseSteps = 4

// matchSteps returns expressions that a message with a term matches one by one: first some words of a long phrase, which
// show sooner that there is no match, then the term.
func matchSteps(t fulltext.Term) (steps []string) {
	if p := t.Phrases[0]; len(p) > 2 && len(t.Phrases) == 1 {
		for _, word := range p[:min(len(p)-1, maxPhraseSteps)] { // the last word may be only a prefix
			steps = append(steps, `"`+word+`"`)
		}
	}
	return append(steps, matchTerm(t))
}

// matchTokens returns the expression that matches messages with any of the tokens.
func matchTokens(tokens []string) string { return `("` + strings.Join(tokens, `" OR "`) + `")` }
