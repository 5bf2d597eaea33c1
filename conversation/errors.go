package conversation

import (
	"strings"

	"parley/conversation/internal/db"
)

// ErrMoved says that the database was taken away from its place. Nothing is stored
// meanwhile.
var ErrMoved = db.ErrMoved

// DamageAdvice tells the operator what to do about a damaged database.
const DamageAdvice = db.DamageAdvice

// IsDamaged reports whether an error says that the database is damaged, so that
// trying again can't help.
func IsDamaged(err error) bool { return db.IsDamaged(err) }

// IsTemporary reports whether the next try may succeed where a read failed: the
// database is busy or closed, or the process lacks memory or file handles.
func IsTemporary(err error) bool { return db.IsTemporary(err) }

// Sentence returns an error as a sentence.
func Sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
