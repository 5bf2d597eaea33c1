package cli

import (
	"strings"

	"parley/markup"
	"parley/plaintext"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
)

// inlines returns the text in a node, in at least the given style.
func (r *renderer) inlines(parent ast.Node, looks look) prose {
	var p prose
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		p = append(p, r.inline(n, looks)...)
	}
	return p
}

func (r *renderer) inline(n ast.Node, looks look) prose {
	switch n := n.(type) {
	case *ast.Text:
		return prose{{r.text(n), looks}}
	case *ast.String:
		return prose{{unbroken(plaintext.ForTerminal(string(n.Value))), looks}}
	case *markup.Formula:
		return prose{{unbroken(string(n.Source)), looks}}
	case *ast.CodeSpan:
		return r.marked(n, "`", looks|accent)
	case *ast.Emphasis:
		if n.Level == 2 {
			return r.marked(n, "**", looks|bold)
		}
		return r.marked(n, "*", looks|italic)
	case *east.Strikethrough:
		return r.marked(n, "~~", looks|strike)
	case *ast.Link:
		return r.link(n, n.Destination, looks)
	case *ast.Image:
		return r.link(n, n.Destination, looks)
	case *ast.AutoLink:
		return prose{{unbroken(string(n.Label(r.src))), looks | underline}}
	case *ast.RawHTML:
		return prose{{rawHTML(string(n.Segments.Value(r.src))), looks}}
	case *east.TaskCheckBox:
		if n.IsChecked {
			return prose{{"☑ ", looks}}
		}
		return prose{{"☐ ", looks}}
	}
	return r.inlines(n, looks)
}

// marked returns the text in a node, between its signs when no style tells it
// from the text around it.
func (r *renderer) marked(n ast.Node, sign string, looks look) prose {
	p := r.inlines(n, looks)
	if r.palette {
		return p
	}
	p = append(prose{{text: sign}}, p...)
	return append(p, span{text: sign})
}

// text returns what a text node shows. A soft line break becomes a space, a hard
// one stays.
func (r *renderer) text(n *ast.Text) string {
	s := string(n.Value(r.src))
	_, code := n.Parent().(*ast.CodeSpan)
	if !code && !n.IsRaw() {
		s = unescape(s)
	}
	s = unbroken(s)
	switch {
	case n.HardLineBreak():
		s = strings.TrimRight(s, " ") + "\n"
	case n.SoftLineBreak():
		s += " "
	}
	return s
}

// unbroken returns s with a space for each line end and tab.
func unbroken(s string) string { return strings.NewReplacer("\n", " ", "\t", " ").Replace(s) }

// unescape resolves markdown's backslashes and HTML's references. A reference
// (&#27;) may be to a control character.
func unescape(s string) string {
	if !strings.ContainsAny(s, `\&`) {
		return s
	}
	return plaintext.ForTerminal(markup.Unescape(s))
}

// link returns what a link or an image shows, with its destination unless the
// text contains it already.
func (r *renderer) link(n ast.Node, destination []byte, outer look) prose {
	url := unbroken(unescape(string(destination)))
	p := r.inlines(n, outer|underline)
	switch shown := strings.TrimSpace(p.String()); {
	case shown == "":
		return prose{{url, outer | underline}}
	case url == "", outer&underline != 0, "mailto:"+shown == url, bareURL(shown) == bareURL(url):
		return p
	}
	return append(p, span{" (" + url + ")", outer | dim})
}

// bareURL returns an address without what people leave out when they name a page.
func bareURL(url string) string {
	_, after, found := strings.Cut(url, "://")
	if found {
		url = after
	}
	return strings.TrimSuffix(url, "/")
}

// rawHTML returns a tag as it is, and a line end for <br>, which has no other
// form in a table's cell.
func rawHTML(tag string) string {
	if strings.EqualFold(strings.Trim(tag, "<>/ "), "br") {
		return "\n"
	}
	return unbroken(tag)
}
