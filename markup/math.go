package markup

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxMath is how many bytes are searched for the end of a formula.
const maxMath = 2000

// Math is an extension that reads formulas in TeX: \(…\) and $…$ within a line, \[…\]
// and $$…$$ also over several. The stars, underscores and backslashes in them are no
// markdown. An environment, \begin{…} to \end{…}, is a formula too. Formulas become nodes of the types Formula and FormulaBlock.
// Outside of them TeX's spaces, \, \; \: and \!, keep their backslash, which Markdown would drop.
type Math struct{}

// Formula is a formula in a paragraph.
type Formula struct {
	ast.BaseInline
	Source  []byte // as it was written, with its marks
	Display bool   // it was written to stand on a line of its own
}

// KindFormula is the kind of Formula.
var KindFormula = ast.NewNodeKind("Formula")

// Kind implements ast.Node.
func (*Formula) Kind() ast.NodeKind { return KindFormula }

// Dump implements ast.Node.
func (n *Formula) Dump(src []byte, at int) { ast.DumpHelper(n, src, at, nil, nil) }

// TeX returns the formula without its marks.
func (n *Formula) TeX() string { return withoutMarks(string(n.Source)) }

// FormulaBlock is a formula whose marks stand on lines of their own, or an environment
// between \begin{…} and \end{…}.
type FormulaBlock struct {
	ast.BaseBlock
	closer string
}

// KindFormulaBlock is the kind of FormulaBlock.
var KindFormulaBlock = ast.NewNodeKind("FormulaBlock")

// Kind implements ast.Node.
func (*FormulaBlock) Kind() ast.NodeKind { return KindFormulaBlock }

// IsRaw implements ast.Node.
func (*FormulaBlock) IsRaw() bool { return true }

// Dump implements ast.Node.
func (n *FormulaBlock) Dump(src []byte, at int) { ast.DumpHelper(n, src, at, nil, nil) }

// Source returns the formula as it was written, with its marks.
func (n *FormulaBlock) Source(src []byte) string {
	return strings.TrimRight(string(n.Lines().Value(src)), "\n")
}

// TeX returns the formula without its marks.
func (n *FormulaBlock) TeX(src []byte) string { return withoutMarks(n.Source(src)) }

// withoutMarks returns a formula without the marks around it.
func withoutMarks(source string) string {
	source = strings.TrimSpace(source)
	opener, closer, _ := mathMarks([]byte(source))
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(source, opener), closer))
}

// Extend adds the parsers.
func (Math) Extend(md goldmark.Markdown) {
	md.Parser().AddOptions(
		parser.WithInlineParsers(util.Prioritized(inlineMath{}, 150), util.Prioritized(space{}, 151)), // after code, before links and emphasis
		parser.WithBlockParsers(util.Prioritized(blockMath{}, 90)),                                    // before lists, whose marks a formula may have
	)
}

// inlineMath reads formulas in a paragraph.
type inlineMath struct{}

func (inlineMath) Trigger() []byte { return []byte{'\\', '$'} }

func (inlineMath) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, _ := block.PeekLine()
	opener, closer, lines := mathMarks(line)
	if opener == "" || block.PrecendingCharacter() == '\\' { // the opener is escaped
		return nil
	}
	at, position := block.Position()
	var formula strings.Builder
	for skip := len(opener); line != nil && formula.Len() < maxMath; skip = 0 {
		line = line[:min(len(line), maxMath)]
		if end := mathEnd(line, skip, closer); end > 0 {
			formula.Write(line[:end])
			block.Advance(end)
			return &Formula{Source: []byte(formula.String()), Display: lines}
		}
		if !lines {
			break
		}
		formula.Write(line)
		block.AdvanceLine()
		line, _ = block.PeekLine()
	}
	block.SetPosition(at, position)
	return nil
}

// space reads the backslash of one of TeX's spaces.
type space struct{}

func (space) Trigger() []byte { return []byte{'\\'} }

func (space) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, _ := block.PeekLine()
	if !isSpace(line) || block.PrecendingCharacter() == '\\' { // the backslash is escaped
		return nil
	}
	block.Advance(1)
	backslash := ast.NewString([]byte{'\\'}) // the text behind it would become part of an ast.Text
	backslash.SetRaw(true)
	return backslash
}

// isSpace reports whether a line begins with one of TeX's spaces. No text needs the
// backslash for markdown's sake, except before an exclamation mark: \![ is no picture, and
// some models escape each mark at the end of a sentence.
func isSpace(line []byte) bool {
	if len(line) < 2 {
		return false
	}
	switch line[1] {
	case ',', ';', ':':
		return true
	case '!':
		return len(line) > 2 && (util.IsAlphaNumeric(line[2]) || line[2] == '\\')
	}
	return false
}

// mathMarks returns the marks around a formula that a line begins with, and whether
// it may have several lines; none where it begins with no formula.
func mathMarks(line []byte) (opener, closer string, lines bool) {
	for _, m := range []struct {
		opener, closer string
		lines          bool
	}{{`\(`, `\)`, false}, {`\[`, `\]`, true}, {`$$`, `$$`, true}, {`$`, `$`, false}} {
		if bytes.HasPrefix(line, []byte(m.opener)) {
			if m.opener == "$" && (len(line) < 2 || util.IsSpace(line[1])) { // a sum of money, or a variable of a shell
				return "", "", false
			}
			return m.opener, m.closer, m.lines
		}
	}
	return "", "", false
}

// mathEnd returns where a formula ends in a line, after its mark; 0 where it does
// not. The next dollar sign ends a formula in single ones only where something that is
// no space stands before it, and no digit behind: "$5 and $10" is no formula.
func mathEnd(line []byte, from int, closer string) int {
	for {
		i := bytes.Index(line[from:], []byte(closer))
		if i < 0 {
			return 0
		}
		end := from + i + len(closer)
		if closer != "$" {
			return end
		}
		if last := line[end-2]; last != '\\' {
			if i == 0 || util.IsSpace(last) || end < len(line) && util.IsNumeric(line[end]) {
				return 0
			}
			return end
		}
		from = end
	}
}

// blockMath reads formulas whose marks stand on lines of their own.
type blockMath struct{}

func (blockMath) Trigger() []byte { return []byte{'\\', '$'} }

func (blockMath) Open(_ ast.Node, reader text.Reader, _ parser.Context) (ast.Node, parser.State) {
	line, segment := reader.PeekLine()
	closer := ""
	switch trimmed := string(bytes.TrimSpace(line)); trimmed {
	case `\[`:
		closer = `\]`
	case `$$`:
		closer = `$$`
	default:
		if name, is := strings.CutPrefix(trimmed, `\begin{`); is && strings.HasSuffix(name, "}") {
			closer = `\end{` + name
		}
	}
	rest := reader.Source()[min(segment.Stop, len(reader.Source())):]
	if closer == "" || !bytes.Contains(rest[:min(len(rest), maxMath)], []byte(closer)) {
		return nil, parser.NoChildren
	}
	n := &FormulaBlock{closer: closer}
	n.Lines().Append(segment)
	reader.Advance(len(bytes.TrimSuffix(line, []byte("\n"))))
	return n, parser.NoChildren
}

func (blockMath) Continue(node ast.Node, reader text.Reader, _ parser.Context) parser.State {
	n := node.(*FormulaBlock)
	line, segment := reader.PeekLine()
	n.Lines().Append(segment)
	reader.Advance(len(bytes.TrimSuffix(line, []byte("\n")))) // the parser goes on behind the line
	if bytes.HasSuffix(bytes.TrimSpace(line), []byte(n.closer)) {
		return parser.Close
	}
	return parser.Continue | parser.NoChildren
}

func (blockMath) Close(ast.Node, text.Reader, parser.Context) {}
func (blockMath) CanInterruptParagraph() bool                 { return true }
func (blockMath) CanAcceptIndentedLine() bool                 { return false }
