package cli

import (
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/charmbracelet/glamour"
	"github.com/charmbracelet/glamour/ansi"
	"github.com/charmbracelet/glamour/styles"
	"github.com/muesli/termenv"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const (
	maxMeasure = 110      // columns beyond which prose is hard to read
	maxRender  = 64 << 10 // bytes beyond which markdown is shown as it is
	maxDepth   = 24       // levels beyond which the same is done: the renderer's time grows with their square
)

// markdown renders an answer for the terminal. It is not safe for concurrent use.
type markdown struct {
	style   ansi.StyleConfig
	profile termenv.Profile
	parser  parser.Parser
	width   int
	term    *glamour.TermRenderer
}

func newMarkdown(p palette) *markdown {
	m := &markdown{
		style:   flat(styles.ASCIIStyleConfig),
		profile: termenv.Ascii,
		parser:  goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser(),
	}
	if p {
		m.profile = profileOf(os.Getenv("TERM"), os.Getenv("COLORTERM"))
		m.style = flat(styles.DarkStyleConfig)
		if lightBackground() {
			m.style = flat(styles.LightStyleConfig)
		}
	}
	return m
}

// flat takes a style's outer margins away, and its text colour: the terminal's
// own is readable on any background.
func flat(s ansi.StyleConfig) ansi.StyleConfig {
	s.Document = ansi.StyleBlock{}
	if s.CodeBlock.Chroma != nil {
		chroma := *s.CodeBlock.Chroma
		chroma.Text = ansi.StylePrimitive{}
		s.CodeBlock.Chroma = &chroma
	}
	return s
}

// lightBackground believes GLAMOUR_STYLE, then COLORFGBG, which several
// terminals set. The terminal itself is not asked: its answer comes as typed
// input, late or never.
func lightBackground() bool {
	switch os.Getenv("GLAMOUR_STYLE") {
	case "light":
		return true
	case "dark":
		return false
	}
	fgbg := os.Getenv("COLORFGBG")
	bg, err := strconv.Atoi(fgbg[strings.LastIndexByte(fgbg, ';')+1:])
	return err == nil && (bg == 7 || bg == 15)
}

func profileOf(term, colorterm string) termenv.Profile {
	switch {
	case colorterm == "truecolor" || colorterm == "24bit":
		return termenv.TrueColor
	case strings.Contains(term, "256color"):
		return termenv.ANSI256
	}
	return termenv.ANSI
}

// render gives the lines of src, which clean has been through, for a terminal
// of the given columns. Code is not wrapped. Blank lines at both ends are left out.
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
	if len(src) > maxRender || m.tooDeep(src) || m.adjust(columns) != nil {
		return strings.Split(src, "\n")
	}
	out, err := m.term.Render(src)
	if err != nil {
		return strings.Split(src, "\n")
	}
	// An entity in the text (&#27;) may have become a control character.
	return trimLines(strings.Split(onlySGR(out), "\n"))
}

func (m *markdown) tooDeep(src string) bool {
	depth, deepest := 0, 0
	_ = ast.Walk(m.parser.Parse(text.NewReader([]byte(src))), func(_ ast.Node, entering bool) (ast.WalkStatus, error) {
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

// adjust makes the renderer fit the terminal's columns.
func (m *markdown) adjust(columns int) error {
	width := max(min(columns-1, maxMeasure), 20)
	if m.term != nil && m.width == width {
		return nil
	}
	formatter := map[termenv.Profile]string{termenv.TrueColor: "terminal16m", termenv.ANSI: "terminal16"}[m.profile]
	if formatter == "" {
		formatter = "terminal256"
	}
	term, err := glamour.NewTermRenderer(
		glamour.WithStyles(m.style),
		glamour.WithColorProfile(m.profile),
		glamour.WithChromaFormatter(formatter),
		glamour.WithWordWrap(width),
	)
	if err != nil {
		return err
	}
	m.term, m.width = term, width
	return nil
}

var lineTail = regexp.MustCompile(`(?:[ \t]|\x1b\[[0-9;:]*m)+$`)

// trimLines takes away the padding at the end of lines, which would be copied
// along with the text, and the blank lines at both ends.
func trimLines(lines []string) []string {
	for i, line := range lines {
		lines[i] = lineTail.ReplaceAllStringFunc(line, func(tail string) string {
			return strings.Map(func(r rune) rune {
				if r == ' ' || r == '\t' {
					return -1
				}
				return r
			}, tail)
		})
	}
	for len(lines) > 0 && textWidth(lines[0]) == 0 {
		lines = lines[1:]
	}
	for len(lines) > 0 && textWidth(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}
