package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"

	"parley/conversation/internal/db"
)

// Metadata is what a program notes of a session or a message: the text of a JSON
// object, "" for none.
type Metadata string

const (
	maxMetadata      = 16 << 10 // bytes of a session's or a message's
	maxMetadataDepth = 20       // objects and lists inside each other; SQLite reads no more than 1000: https://www.sqlite.org/json1.html
)

// checked gives the metadata without spaces between its members, "" for an
// empty object.
func (m Metadata) checked() (Metadata, error) {
	if m == "" {
		return "", nil
	}
	if len(m) > maxMetadata {
		return "", fmt.Errorf("%w: metadata has %d bytes, at most %d are taken", ErrInvalid, len(m), maxMetadata)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(db.Text(string(m)))); err != nil || compact.Bytes()[0] != '{' {
		return "", fmt.Errorf("%w: metadata is no JSON object", ErrInvalid)
	}
	if compact.Len() == len("{}") {
		return "", nil
	}
	if depth(compact.Bytes()) > maxMetadataDepth {
		return "", fmt.Errorf("%w: metadata has more than %d objects or lists inside each other", ErrInvalid, maxMetadataDepth)
	}
	return Metadata(compact.String()), nil
}

// depth is how many objects and lists of a JSON text lie inside each other.
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

// Filter asks for metadata that has each of these members, with a text, a number
// or a truth value that reads so: {"agent": "planner", "iteration": "3"}. The
// zero value takes everything.
type Filter map[string]string

// parameter is the filter as metadataMatches reads it.
func (f Filter) parameter() (any, error) {
	if len(f) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(f)
	return string(text), err
}

// metadataMatches is the condition that a column of metadata has what a filter
// asks for, which is given as a parameter.
func metadataMatches(column, parameter string) string {
	return `NOT EXISTS (SELECT 1 FROM json_each(` + parameter + `) wanted WHERE NOT EXISTS (
		SELECT 1 FROM json_each(` + column + `) has WHERE has.key = wanted.key AND wanted.value =
			CASE has.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(has.atom AS TEXT) END))`
}
