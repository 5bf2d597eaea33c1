// Package metadata checks and filters the metadata of sessions, conversations and messages: JSON objects in
// which programs note what they like.
package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf16"

	"parley/conversation/internal/db"
)

// Object is what a program notes of a session, a conversation or a message: the text of a JSON
// object, "" for none.
type Object string

const (
	MaxBytes = 16 << 10 // bytes of the metadata of a session, a conversation or a message

	maxDepth = 20 // objects and lists inside each other; SQLite reads no more than 1000: https://www.sqlite.org/json1.html
)

// Checked returns the metadata without spaces between its members, "" for an empty object.
// The error wraps db.ErrInvalid.
func (m Object) Checked() (Object, error) { return m.CheckedUpTo(MaxBytes) }

// CheckedUpTo is Checked with another limit, in bytes.
func (m Object) CheckedUpTo(most int) (Object, error) {
	if m == "" {
		return "", nil
	}
	if len(m) > most {
		return "", fmt.Errorf("%w: metadata has %d bytes, at most %d are taken", db.ErrInvalid, len(m), most)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(Comparable(db.Text(string(m))))); err != nil || compact.Bytes()[0] != '{' {
		return "", fmt.Errorf("%w: metadata is no JSON object", db.ErrInvalid)
	}
	if compact.Len() == len("{}") {
		return "", nil
	}
	if depth(compact.Bytes()) > maxDepth {
		return "", fmt.Errorf("%w: metadata has more than %d objects or lists inside each other", db.ErrInvalid, maxDepth)
	}
	return Object(compact.String()), nil
}

// escape finds the escapes of a JSON text; those of both halves of a character are one.
var escape = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.`)

// Comparable returns a JSON text with U+FFFD in place of the escapes of NUL and of halves of characters. PostgreSQL stores such
// escapes, but fails when it compares the texts that have them.
func Comparable(text string) string {
	return escape.ReplaceAllStringFunc(text, func(found string) string {
		if len(found) != len(`\u0000`) {
			return found
		}
		if code, err := strconv.ParseUint(found[2:], 16, 16); err != nil || code != 0 && !utf16.IsSurrogate(rune(code)) {
			return found
		}
		return `\ufffd`
	})
}

// depth returns how deep the objects and lists of a JSON text are nested.
func depth(text []byte) (deepest int) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for depth := 0; ; deepest = max(deepest, depth) {
		switch token, err := decoder.Token(); {
		case err != nil:
			return deepest
		case token == json.Delim('{'), token == json.Delim('['):
			depth++
		case token == json.Delim('}'), token == json.Delim(']'):
			depth--
		}
	}
}

// Filter selects metadata that has all of these members, each with a text, a number or a
// boolean that is written so: {"agent": "planner", "iteration": "3"}. The zero value selects
// everything.
type Filter map[string]string

// Parameter returns the filter as the parameter of Matches.
func (f Filter) Parameter() (any, error) {
	if len(f) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(f)
	return Comparable(string(text)), err
}

// Matches returns the SQL condition that a filter, which is a parameter of the query, selects
// columns of metadata: each member that it wants is in one of them.
func Matches(parameter string, columns ...string) string {
	condition := `NOT EXISTS (SELECT 1 FROM ` + db.Either(`json_each(`+parameter+`) wanted`, `json_each_text(CAST(CAST(`+parameter+` AS text) AS json)) wanted(key, value)`) + ` WHERE true`
	for _, column := range columns {
		condition += ` AND NOT EXISTS (SELECT 1 FROM ` + db.Either(`json_each(`+column+`) has WHERE has.key = wanted.key AND wanted.value =
				CASE has.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(has.atom AS TEXT) END`,
			`json_each(CAST(`+column+` AS json)) has(key, value) WHERE has.key = wanted.key AND wanted.value = has.value #>> '{}'
				AND json_typeof(has.value) IN ('string', 'number', 'boolean')`) + `)`
	}
	return condition + `)`
}
