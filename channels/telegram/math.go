package telegram

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

// math leaves formulas in TeX as the model wrote them, since Telegram shows none:
// \(…\) and $…$ within a line, \[…\] and $$…$$ also over several. The stars,
// underscores and backslashes in them are no markdown.
type math struct{}

// Extend adds the parsers.
func (math) Extend(md goldmark.Markdown) {
	md.Parser().AddOptions(
		parser.WithInlineParsers(util.Prioritized(inlineMath{}, 150)), // after code, before links and emphasis
		parser.WithBlockParsers(util.Prioritized(blockMath{}, 90)),    // before lists, whose marks a formula may have
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
			return ast.NewString([]byte(formula.String()))
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

// mathBlock is a formula on lines of its own.
type mathBlock struct {
	ast.BaseBlock
	closer string
}

var kindMathBlock = ast.NewNodeKind("MathBlock")

func (*mathBlock) Kind() ast.NodeKind        { return kindMathBlock }
func (*mathBlock) IsRaw() bool               { return true }
func (n *mathBlock) Dump(src []byte, at int) { ast.DumpHelper(n, src, at, nil, nil) }

// blockMath reads formulas whose marks stand on lines of their own.
type blockMath struct{}

func (blockMath) Trigger() []byte { return []byte{'\\', '$'} }

func (blockMath) Open(_ ast.Node, reader text.Reader, _ parser.Context) (ast.Node, parser.State) {
	line, segment := reader.PeekLine()
	closer := ""
	switch string(bytes.TrimSpace(line)) {
	case `\[`:
		closer = `\]`
	case `$$`:
		closer = `$$`
	}
	rest := reader.Source()[min(segment.Stop, len(reader.Source())):]
	if closer == "" || !bytes.Contains(rest[:min(len(rest), maxMath)], []byte(closer)) {
		return nil, parser.NoChildren
	}
	n := &mathBlock{closer: closer}
	n.Lines().Append(segment)
	reader.Advance(segment.Len() - 1)
	return n, parser.NoChildren
}

func (blockMath) Continue(node ast.Node, reader text.Reader, _ parser.Context) parser.State {
	n := node.(*mathBlock)
	line, segment := reader.PeekLine()
	n.Lines().Append(segment)
	reader.Advance(segment.Len() - 1)
	if bytes.HasSuffix(bytes.TrimSpace(line), []byte(n.closer)) {
		return parser.Close
	}
	return parser.Continue | parser.NoChildren
}

func (blockMath) Close(ast.Node, text.Reader, parser.Context) {}
func (blockMath) CanInterruptParagraph() bool                 { return true }
func (blockMath) CanAcceptIndentedLine() bool                 { return false }
