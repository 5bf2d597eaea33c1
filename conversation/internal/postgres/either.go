package postgres

import "strings"

const (
	ownBegin = "/*postgres "
	ownEnd   = " sqlite*/"
	otherEnd = "/*both*/"
)

// Either returns a statement, or a part of one, that SQLite and PostgreSQL need in different
// words. SQLite takes those for PostgreSQL for a comment; rewriting a statement puts them in
// the place of those for SQLite. They hold no comment and no other Either. Both have the same
// arguments, but a text with numbered or named placeholders need not use each.
func Either(sqlite, postgres string) string {
	return ownBegin + postgres + ownEnd + sqlite + otherEnd
}

// choose puts what stands for PostgreSQL in the place of the Either that the rest of the
// statement begins with. It reports false if the rest begins with something else.
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
