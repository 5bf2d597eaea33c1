package cli

import (
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"

	"parley/markup"
)

const (
	maxMeasure = 110      // columns beyond which prose is hard to read
	minMeasure = 20       // columns that prose gets in any terminal
	maxRender  = 64 << 10 // bytes beyond which markdown is shown as it is
	maxDepth   = 24       // levels beyond which the same is done: their indents leave no room for text
)

// markdown renders answers for the terminal. It uses the terminal's own colours,
// which are readable on the background that the user has chosen.
type markdown struct {
	palette palette
	parser  *markup.Parser
}

func newMarkdown(p palette) *markdown {
	return &markdown{p, markup.NewParser(goldmark.New(goldmark.WithExtensions(extension.GFM)))}
}

// render returns the lines of src, which is clean, for a terminal of the given
// columns, without blank lines at both ends. It does not wrap code. It returns
// what is too long, too deep or too costly to parse as it is.
func (m *markdown) render(src string, columns int) (lines []string) {
	if strings.TrimSpace(src) == "" {
		return nil
	}
	defer func() {
		// Hostile markdown must not end the chat.
		if recover() != nil {
			lines = strings.Split(src, "\n")
		}
	}()
	if len(src) > maxRender {
		return strings.Split(src, "\n")
	}
	doc, err := m.parser.Parse([]byte(src))
	if err != nil || tooDeep(doc) {
		return strings.Split(src, "\n")
	}
	r := &renderer{
		src:     []byte(src),
		palette: m.palette,
		width:   max(min(columns-1, maxMeasure), minMeasure),
	}
	r.blocks(doc, true)
	return trimLines(r.lines)
}

func tooDeep(doc ast.Node) bool {
	depth, deepest := 0, 0
	_ = ast.Walk(doc, func(_ ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			depth--
			return ast.WalkContinue, nil
		}
		depth++
		deepest = max(deepest, depth)
		return ast.WalkContinue, nil
	})
	return deepest > maxDepth
}

// trimLines removes the blank lines at both ends.
func trimLines(lines []string) []string {
	for len(lines) > 0 && textWidth(lines[0]) == 0 {
		lines = lines[1:]
	}
	for len(lines) > 0 && textWidth(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}
