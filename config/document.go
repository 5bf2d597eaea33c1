package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// node is a value of a TOML document and the line on which it begins.
type node struct {
	line     int
	value    any              // the type that package toml decodes into a variable of type any
	children map[string]*node // keys of a table; nil if the node is no table
	tables   []*node          // elements of a list of tables; nil if the node is no such list
}

// isTable reports whether the node is a section, in any notation: under a header,
// with dotted keys or inline.
func (n *node) isTable() bool { return n.children != nil }

// parse reads a TOML document into its root table. The error is a Problem
// without a file name.
func parse(doc string) (*node, error) {
	doc = strings.TrimPrefix(doc, "\ufeff")
	if at := strings.IndexRune(doc, utf8.RuneError); at >= 0 && !utf8.ValidString(doc) {
		line, column := lineColumn(doc, at)
		return nil, Problem{Line: line, Column: column, Found: "bytes that are no UTF-8", Allowed: "a text file in UTF-8"}
	}
	var top map[string]toml.Primitive
	md, err := toml.Decode(doc, &top)
	if syntax := new(toml.ParseError); errors.As(err, syntax) {
		return nil, syntaxProblem(doc, *syntax)
	} else if err != nil {
		return nil, Problem{Found: err.Error(), Allowed: "a TOML document"}
	}
	r := reader{doc: doc, md: md}
	children, err := r.table(nil, top)
	return &node{line: 1, children: children}, err
}

// reader turns what package toml decoded into nodes.
type reader struct {
	doc string
	md  toml.MetaData
}

// locator refuses to be decoded, since package toml tells the position of a key only in
// the error of a value that does.
type locator struct{ value any }

var errLocated = errors.New("located")

func (l *locator) UnmarshalTOML(value any) error {
	l.value = value
	return errLocated
}

func (r *reader) table(path toml.Key, members map[string]toml.Primitive) (map[string]*node, error) {
	nodes := make(map[string]*node, len(members))
	for name, primitive := range members {
		n, err := r.node(append(slices.Clone(path), name), primitive)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		nodes[name] = n
	}
	return nodes, nil
}

func (r *reader) node(path toml.Key, primitive toml.Primitive) (*node, error) {
	var at locator
	var located toml.ParseError
	var err error
	if err := r.md.PrimitiveDecode(primitive, &at); !errors.As(err, &located) {
		return nil, fmt.Errorf("no position: %w", err)
	}
	line, _ := lineColumn(r.doc, located.Position.Start)
	n := &node{line: line, value: at.value}
	if _, ok := at.value.([]map[string]any); ok {
		n.tables, err = r.tables(path, line, primitive)
		return n, err
	}
	if _, ok := at.value.(map[string]any); !ok {
		return n, nil
	}
	var members map[string]toml.Primitive
	if err := r.md.PrimitiveDecode(primitive, &members); err != nil {
		return nil, err
	}
	n.children, err = r.table(path, members)
	if located.Position.Line == 0 { // a table without a header begins with its first key
		n.line = firstLine(n.children)
	}
	return n, err
}

// tables reads a list of tables, the last of which begins on a line. Package toml tells of
// a key in such tables only where it stands last, so that of several each is read as a
// document of its own.
func (r *reader) tables(path toml.Key, last int, primitive toml.Primitive) ([]*node, error) {
	var list []map[string]toml.Primitive
	if err := r.md.PrimitiveDecode(primitive, &list); err != nil {
		return nil, err
	}
	offsets := r.headers(path)
	nodes := make([]*node, 0, len(list))
	for i, members := range list {
		if len(list) > 1 && len(list) == len(offsets) {
			n, err := r.part(path, offsets[i], append(offsets, len(r.doc))[i+1])
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, n)
			continue
		}
		children, err := r.table(path, members)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, &node{line: last, value: map[string]any{}, children: children})
	}
	return nodes, nil
}

// headers returns the offsets of the lines [[path]].
func (r *reader) headers(path toml.Key) (offsets []int) {
	start, at := 0, 0 // of the document since the last of them, and of the line
	for line := range strings.Lines(r.doc) {
		if strings.HasPrefix(strings.TrimSpace(line), "[[") && isHeader(line, path) && isTOML(r.doc[start:at]) {
			offsets = append(offsets, at)
			start = at
		}
		at += len(line)
	}
	return offsets
}

// isHeader reports whether a line is the header [[path]], if it is no part of a longer text.
func isHeader(line string, path toml.Key) bool {
	var anything map[string]any
	md, err := toml.Decode(line, &anything)
	return err == nil && len(md.Keys()) == 1 && slices.Equal(md.Keys()[0], path)
}

func isTOML(doc string) bool {
	var anything map[string]any
	_, err := toml.Decode(doc, &anything)
	return err == nil
}

// part reads the table [[path]] that begins at an offset, and is the only one before another offset.
func (r *reader) part(path toml.Key, from, to int) (*node, error) {
	root, err := parse(r.doc[from:to])
	if err != nil {
		return nil, err
	}
	list := root.at(path...)
	if len(list.tables) != 1 {
		return nil, fmt.Errorf("no table [[%s]]", path)
	}
	before, _ := lineColumn(r.doc, from)
	list.tables[0].shift(before - 1)
	return list.tables[0], nil
}

// shift adds to the lines of a node and of those below it.
func (n *node) shift(lines int) {
	n.line += lines
	for _, child := range n.children {
		child.shift(lines)
	}
	for _, table := range n.tables {
		table.shift(lines)
	}
}

func firstLine(nodes map[string]*node) int {
	first := 0
	for _, n := range nodes {
		if first == 0 || n.line < first {
			first = n.line
		}
	}
	return first
}

// lineColumn returns the line and the column of a byte offset, both from 1, the column
// in characters.
func lineColumn(doc string, offset int) (line, column int) {
	before := doc[:min(max(offset, 0), len(doc))]
	lineStart := strings.LastIndexByte(before, '\n') + 1
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[lineStart:])
}

// syntaxProblem returns the problem for what package toml could not read. It repeats
// nothing of a value, which may be a secret without its quotes.
func syntaxProblem(doc string, err toml.ParseError) Problem {
	line, column := lineColumn(doc, err.Position.Start)
	p := Problem{Line: line, Column: column, Key: err.LastKey}
	for _, s := range syntaxErrors {
		if m := s.message.FindStringSubmatch(err.Message); m != nil {
			p.Found, p.Allowed = strings.ReplaceAll(s.found, "$1", strings.Join(m[1:], "")), s.allowed
			return p
		}
	}
	p.Found = "what is not TOML: " + longQuote.ReplaceAllString(err.Message, "...")
	p.Allowed = `[section], key = value, # comment`
	return p
}

// longQuote is a quotation in a message of package toml that may hold a value.
var longQuote = regexp.MustCompile(`'[^']{4,}'|"[^"]{4,}"`)

// syntaxErrors puts the messages of package toml in the words of this one.
var syntaxErrors = []struct {
	message        *regexp.Regexp
	found, allowed string
}{
	{regexp.MustCompile(`^expected value but found '\\[rn]'|^unexpected EOF; expected value`), "no value", `key = value`},
	{regexp.MustCompile(`^expected value but found|^invalid datetime|^expected a digit`), "a value without quotes", `text in quotes: key = "text"`},
	{regexp.MustCompile(`^expected '\.' or '=', but got`), "no = after the key", `key = value`},
	{regexp.MustCompile(`^expected '\.' or '\]'`), "a section name that is not closed", `[section]`},
	{regexp.MustCompile(`NULL bytes`), "bytes that are no UTF-8", "a text file in UTF-8"},
	{regexp.MustCompile(`control characters: '0x0d'`), "a carriage return that ends no line", "lines that end with a line feed"},
	{regexp.MustCompile(`control characters: '(0x[0-9a-f]+)'`), "the control character $1", "text without control characters"},
	{regexp.MustCompile(`^expected a top-level item to end`), "more after the value", `text in quotes, then the end of the line or a # comment`},
	{regexp.MustCompile(`^strings cannot contain newlines`), "a quote that is not closed on its line", `key = "text", or """ around text of several lines`},
	{regexp.MustCompile(`^unexpected EOF; expected ["'` + "`" + `]`), "a quote that is never closed", `key = "text"`},
	{regexp.MustCompile(`^Key '(.*)' (?:has already been defined|was already created)`), "$1 for the second time", "each key and each [section] once"},
	{regexp.MustCompile(`is out of range for|^(?i)invalid (?:integer|float)|^cannot use sign|^floats must|^not an? `), "a number that can't be read", `numbers such as 12 or 0.5, text in quotes`},
	{regexp.MustCompile(`^invalid escape|hexadecimal digits after|^Escaped character`), "a backslash that begins no known escape", `'text' in single quotes, where a backslash is itself`},
}
