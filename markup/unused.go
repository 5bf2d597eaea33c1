package markup

import (
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// showUnused turns the definitions of links that no link of the document refers to into paragraphs,
// since renderers leave out definitions: a list of sources may be written as nothing but these.
// Definitions of "#" stay hidden, because people write comments as such.
func showUnused(doc ast.Node, source []byte) {
	used := map[string]bool{"#": true}
	var definitions []*ast.LinkReferenceDefinition
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // never fails
		switch n := n.(type) {
		case *ast.Link:
			used[string(n.Destination)] = true
		case *ast.Image:
			used[string(n.Destination)] = true
		case *ast.LinkReferenceDefinition:
			if entering {
				definitions = append(definitions, n)
			}
		}
		return ast.WalkContinue, nil
	})
	var last *ast.Paragraph // of the definition before
	for _, d := range definitions {
		if used[string(d.Destination)] || d.Lines().Len() == 0 {
			continue
		}
		if last != nil && d.PreviousSibling() == ast.Node(last) {
			last.AppendChild(last, lineBreak())
			d.Parent().RemoveChild(d.Parent(), d)
		} else {
			last = ast.NewParagraph()
			d.Parent().ReplaceChild(d.Parent(), d, last)
		}
		addLines(last, d, source)
	}
}

// addLines appends the lines of a definition, as they were written, to a paragraph.
func addLines(p *ast.Paragraph, d *ast.LinkReferenceDefinition, source []byte) {
	lines := d.Lines()
	for i := range lines.Len() {
		if i > 0 {
			p.AppendChild(p, lineBreak())
		}
		line := lines.At(i)
		p.AppendChild(p, ast.NewRawTextSegment(line.TrimRightSpace(source)))
	}
}

// lineBreak returns a node of its own for the end of a line: raw text has none.
func lineBreak() ast.Node {
	end := ast.NewTextSegment(text.NewSegment(0, 0))
	end.SetHardLineBreak(true)
	return end
}
