package postgres

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// statement is a statement with the placeholders of PostgreSQL.
type statement struct {
	text   string
	params []param // the parameters of $1, $2, …
}

// param identifies the argument for a placeholder.
type param struct {
	name   string // the name in :name; "" = the argument is identified by its number
	number int    // from 1; 0 for a name
}

// arguments returns the values of the placeholders, in their order.
func (s *statement) arguments(given []driver.NamedValue) ([]any, error) {
	args := make([]any, len(s.params))
	for i, p := range s.params {
		at := p.find(given)
		if at < 0 {
			return nil, fmt.Errorf("argument for %s missing; the statement has %d arguments: %s", p, len(given), s.text)
		}
		args[i] = given[at].Value
	}
	return args, nil
}

// find returns the index of the argument for a placeholder, -1 if there is none.
func (p param) find(given []driver.NamedValue) int {
	for i, arg := range given {
		if p.name != "" && arg.Name == p.name || p.name == "" && arg.Name == "" && arg.Ordinal == p.number {
			return i
		}
	}
	return -1
}

func (p param) String() string {
	if p.name != "" {
		return ":" + p.name
	}
	return "?" + strconv.Itoa(p.number)
}

// statements caches rewritten statements. It is safe for concurrent use.
type statements struct {
	cached sync.Map     // *statement by the text before rewriting
	n      atomic.Int32 // the number of cached statements
}

// maxStatements is about how many statements are cached, at most. The store has a few hundred,
// but those that are composed of filters could become many.
const maxStatements = 2000

// of returns the rewritten form of a statement.
func (s *statements) of(query string) *statement {
	if cached, known := s.cached.Load(query); known {
		return cached.(*statement)
	}
	made := rewrite(query)
	if s.n.Load() < maxStatements {
		s.n.Add(1)
		s.cached.Store(query, made)
	}
	return made
}

// rewrite converts the placeholders of a statement to the form $1. As in SQLite, ? has the number after
// the largest so far, ?N has the number N, and a :name has the same number wherever it occurs.
// Literals, quoted identifiers, comments, and casts such as ::text are not changed. Each Either
// is replaced by its form for PostgreSQL.
func rewrite(query string) *statement {
	r := rewriter{rest: query, places: map[param]int{}}
	for r.rest != "" {
		r.step()
	}
	return &statement{text: r.text.String(), params: r.params}
}

// rewriter is the state of rewriting a statement.
type rewriter struct {
	rest    string          // the part that was not read yet
	text    strings.Builder // the rewritten part
	word    bool            // whether the last character belongs to an identifier or a number
	largest int             // the largest number of a placeholder so far
	params  []param
	places  map[param]int // the number of each parameter in the rewritten statement
}

// step reads the next token. It converts a placeholder or an Either, and copies any other token.
func (r *rewriter) step() {
	switch {
	case strings.HasPrefix(r.rest, "--"):
		r.copy(lineLength(r.rest))
	case r.choose():
	case strings.HasPrefix(r.rest, "/*"):
		r.copy(commentLength(r.rest))
	case strings.HasPrefix(r.rest, "::"):
		r.copy(2)
	default:
		r.character()
	}
}

// character reads a token that its first character identifies.
func (r *rewriter) character() {
	switch c := r.rest[0]; c {
	case '\'':
		r.copy(quotedLength(r.rest, r.escapes()))
	case '"':
		r.copy(quotedLength(r.rest, false))
	case '$':
		r.dollar()
	case '?':
		r.numbered(digitsLength(r.rest[1:]))
	case ':':
		r.name()
	default:
		_, size := utf8.DecodeRuneInString(r.rest)
		r.copy(size)
		r.word = isWord(c)
	}
}

// copy copies n bytes.
func (r *rewriter) copy(n int) {
	r.text.WriteString(r.rest[:n])
	r.rest = r.rest[n:]
	r.word = false
}

// escapes reports whether the string that begins here is of the form E'…', in which a backslash
// escapes a quote.
func (r *rewriter) escapes() bool {
	text := r.text.String()
	if !strings.HasSuffix(text, "E") && !strings.HasSuffix(text, "e") {
		return false
	}
	return len(text) == 1 || !isWord(text[len(text)-2])
}

// dollar copies a string such as $tag$…$tag$, or writes a placeholder such as $1, which is the
// same as ?1.
func (r *rewriter) dollar() {
	if n := wordLength(r.rest[1:]); !r.word && n+1 < len(r.rest) && r.rest[n+1] == '$' && (n == 0 || !isDigit(r.rest[1])) {
		tag := r.rest[:n+2]
		end := strings.Index(r.rest[len(tag):], tag)
		if end < 0 {
			r.copy(len(r.rest))
			return
		}
		r.copy(len(tag) + end + len(tag))
		return
	}
	if n := digitsLength(r.rest[1:]); n > 0 && !r.word {
		r.numbered(n)
		return
	}
	r.copy(1)
	r.word = true
}

// numbered writes a placeholder ? or $ that is followed by a number of n digits. If n is 0, the placeholder has the next number.
func (r *rewriter) numbered(n int) {
	number := r.largest + 1
	if n > 0 {
		asked, err := strconv.Atoi(r.rest[1 : n+1])
		if err != nil || asked < 1 {
			r.copy(n + 1) // the server will refuse it with an error
			return
		}
		number = asked
	}
	r.rest = r.rest[n+1:]
	r.largest = max(r.largest, number)
	r.use(param{number: number})
}

// name writes a placeholder :name, or copies a colon that does not begin one.
func (r *rewriter) name() {
	n := wordLength(r.rest[1:])
	if r.word || n == 0 || isDigit(r.rest[1]) {
		r.copy(1)
		return
	}
	named := param{name: r.rest[1 : n+1]}
	r.rest = r.rest[n+1:]
	if r.places[named] == 0 {
		r.largest++
	}
	r.use(named)
}

// use writes the placeholder $N of a parameter.
func (r *rewriter) use(p param) {
	if r.places[p] == 0 {
		r.params = append(r.params, p)
		r.places[p] = len(r.params)
	}
	r.text.WriteByte('$')
	r.text.WriteString(strconv.Itoa(r.places[p]))
	r.word = true
}

// lineLength returns the length of the first line, without its end.
func lineLength(text string) int {
	if n := strings.IndexByte(text, '\n'); n >= 0 {
		return n
	}
	return len(text)
}

// commentLength returns the length of a comment, in which others may be nested.
func commentLength(text string) int {
	depth := 0
	for i := 0; i+1 < len(text); i++ {
		switch text[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// quotedLength returns the length of a string or an identifier with its quotes. A doubled quote
// does not end it.
func quotedLength(text string, escapes bool) int {
	for i := 1; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\':
			i++
		case text[i] == text[0] && strings.HasPrefix(text[i+1:], text[:1]):
			i++
		case text[i] == text[0]:
			return i + 1
		}
	}
	return len(text)
}

func wordLength(text string) (n int) {
	for n < len(text) && isWord(text[n]) {
		n++
	}
	return n
}

func digitsLength(text string) (n int) {
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

func isWord(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c >= utf8.RuneSelf
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
