package postgres

import "strings"

const (
	ownBegin = "/*postgres "
	ownEnd   = " sqlite*/"
	otherEnd = "/*both*/"
)

// Either returns a statement, or a part of one, with a form for SQLite and a form for PostgreSQL.
// The form for PostgreSQL is in a comment, which SQLite ignores. When a statement is rewritten
// for PostgreSQL, this form replaces the other one. The forms must not contain comments or
// another Either. Both get the same arguments; with numbered or named placeholders, a form need
// not use all of them.
func Either(sqlite, postgres string) string {
	return ownBegin + postgres + ownEnd + sqlite + otherEnd
}

// choose replaces the Either at the beginning of the rest by its form for PostgreSQL. It reports
// false if the rest does not begin with an Either.
func (r *rewriter) choose() bool {
	after, is := strings.CutPrefix(r.rest, ownBegin)
	if !is {
		return false
	}
	own, other, ended := strings.Cut(after, ownEnd)
	_, both, closed := strings.Cut(other, otherEnd)
	if !ended || !closed {
		return false
	}
	r.rest = own + both
	r.word = false
	return true
}
