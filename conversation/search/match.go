package search

import (
	"strings"

	"parley/conversation/fulltext"
	"parley/conversation/internal/wordindex"
)

// This file writes the queries for the index. The words of terms consist of letters, digits and marks, so none needs
// escaping.

// expression says which messages match: those that have any of the phrases, or the token.
type expression struct {
	phrases      []fulltext.Phrase
	prefix       bool   // the last word of each phrase also matches longer words that begin with it
	token        string // a token of the column place, see package wordindex; "" = match the phrases
	session      string // only messages with the token of this session; "" = of all sessions
	withoutTools bool   // do not look for words in tool calls
	noTools      bool   // leave out the results of tools
}

// of returns the expression for a term.
func of(t fulltext.Term) expression { return expression{phrases: t.Phrases, prefix: t.Prefix} }

// ofTokens returns the expression for any of the tokens.
func ofTokens(tokens []string) (e expression) {
	for _, token := range tokens {
		e.phrases = append(e.phrases, fulltext.Phrase{token})
	}
	return e
}

// table is a table of the index.
type table int

const (
	words table = iota // the words of each message in their order
	ranks              // the stemmed words of each message, with their impact
)

// match is an expression in the syntax of the database engine.
type match struct {
	query string

	// On PostgreSQL, a message must also have one of these phrases: in what was said, or in its tool calls. There is one
	// on each line, in the form of the columns said and called. "" = the query alone decides.
	said, called string
}

// fts5 returns the expression in the syntax of SQLite's FTS5: https://www.sqlite.org/fts5.html, section 3.
func (e expression) fts5(in table) match {
	phrases := make([]string, len(e.phrases))
	for i, p := range e.phrases {
		phrases[i] = `"` + strings.Join(p, " ") + `"`
		if e.prefix {
			phrases[i] += " *"
		}
	}
	query := "(" + strings.Join(phrases, " OR ") + ")"
	switch {
	case e.token != "":
		query = e.token
	case e.withoutTools && in == ranks:
		query = "said : " + query
	case e.withoutTools:
		query = "{words parts} : " + query
	}
	if e.session != "" {
		query = `"` + e.session + `" AND (` + query + `)`
	}
	if e.noTools {
		query = "(" + query + ") NOT " + wordindex.ToolToken
	}
	return match{query: query}
}

// tsquery returns the expression in the syntax of PostgreSQL's tsquery:
// https://www.postgresql.org/docs/current/datatype-textsearch.html. The query finds messages that have all words of a
// phrase; said and called select those that have the phrase.
func (e expression) tsquery(in table) (m match) {
	var all, texts []string
	places, long := wordindex.Places(in == ranks, e.withoutTools), false
	for _, p := range e.phrases {
		for _, place := range places {
			all = append(all, "("+e.allOf(p, place)+")")
		}
		text := " " + strings.Join(p, " ")
		if !e.prefix {
			text += " "
		}
		texts, long = append(texts, text), long || len(p) > 1
	}
	m.query = "(" + strings.Join(all, " | ") + ")"
	if e.token != "" {
		m.query = "'" + e.token + "'"
	}
	if e.session != "" {
		m.query = "'" + e.session + "' & " + m.query
	}
	if e.noTools {
		m.query += " & !'" + wordindex.ToolToken + "'"
	}
	if long {
		m.said = strings.Join(texts, "\n")
	}
	if !e.withoutTools {
		m.called = m.said
	}
	return m
}

// allOf returns the query for messages that have all words of a phrase in a place, see wordindex.Places.
func (e expression) allOf(p fulltext.Phrase, place string) string {
	lexemes := make([]string, len(p))
	for i, word := range p {
		lexemes[i] = "'" + place + word + "'"
	}
	if e.prefix {
		lexemes[len(p)-1] += ":*"
	}
	return strings.Join(lexemes, " & ")
}

// maxPhraseSteps is how many words of a phrase are looked up before the phrase itself, at most.
const maxPhraseSteps = 4

// stepsOf returns expressions for a term, all of which a message must match. For a phrase of more than two words, single
// words of it come first, since a word that nobody used shows quickly that there is no match. The term itself is the last.
func stepsOf(t fulltext.Term) (steps []expression) {
	if p := t.Phrases[0]; len(p) > 2 && len(t.Phrases) == 1 {
		for _, word := range p[:min(len(p)-1, maxPhraseSteps)] { // the last word may be only a prefix
			steps = append(steps, ofTokens([]string{word}))
		}
	}
	return append(steps, of(t))
}
