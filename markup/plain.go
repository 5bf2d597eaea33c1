package markup

import (
	"bufio"
	"html"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	ghtml "github.com/yuin/goldmark/renderer/html"
)

// Plain returns what markdown says, without its marks: the words of links without their
// addresses, code without its fences, formulas as they are. Each block stands on a line of its
// own. A text that is too costly to parse is returned as it is.
func Plain(source string) string {
	src := []byte(source)
	doc, err := plainParser().Parse(src)
	if err != nil {
		return source
	}
	p := plainWriter{src: src}
	_ = ast.Walk(doc, p.visit) // which returns no error
	return strings.TrimSpace(p.out.String())
}

var plainParser = sync.OnceValue(func() *Parser {
	return NewParser(goldmark.New(goldmark.WithExtensions(extension.GFM, Math{})))
})

// plainWriter writes the words of a document.
type plainWriter struct {
	src []byte
	out strings.Builder
}

func (p *plainWriter) visit(n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		if n.Type() == ast.TypeBlock {
			p.out.WriteByte('\n')
		}
		return ast.WalkContinue, nil
	}
	switch n := n.(type) {
	case *ast.Text:
		p.text(n)
	case *ast.String:
		p.out.Write(n.Value)
	case *Formula:
		p.out.Write(n.Source)
	case *ast.AutoLink:
		p.out.Write(n.Label(p.src))
	case *ast.RawHTML:
		p.out.Write(n.Segments.Value(p.src))
	default:
		if n.Type() == ast.TypeBlock && n.IsRaw() {
			p.out.Write(n.Lines().Value(p.src))
		}
	}
	return ast.WalkContinue, nil
}

func (p *plainWriter) text(n *ast.Text) {
	value := string(n.Value(p.src))
	if _, isCode := n.Parent().(*ast.CodeSpan); !isCode && !n.IsRaw() {
		value = Unescape(value)
	}
	p.out.WriteString(value)
	if n.HardLineBreak() || n.SoftLineBreak() {
		p.out.WriteByte('\n')
	}
}

// Unescape resolves markdown's backslashes and HTML's references in a text of a document. A
// reference (&#27;) may be to a control character.
func Unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	var b strings.Builder
	buf := bufio.NewWriterSize(&b, len(s))
	ghtml.DefaultWriter.Write(buf, []byte(s))
	_ = buf.Flush() // a strings.Builder takes everything
	return html.UnescapeString(b.String())
}
