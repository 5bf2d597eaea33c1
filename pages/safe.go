package pages

import (
	"html/template"
	"net/url"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"parley/markup"
)

// safeRenderer renders the nodes that could do harm, or that look better than
// with goldmark's own renderer.
type safeRenderer struct{}

func (s safeRenderer) RegisterFuncs(register renderer.NodeRendererFuncRegisterer) {
	register.Register(ast.KindHTMLBlock, s.htmlBlock)
	register.Register(ast.KindRawHTML, s.rawHTML)
	register.Register(ast.KindLink, s.link)
	register.Register(ast.KindAutoLink, s.autoLink)
	register.Register(ast.KindImage, s.image)
	register.Register(ast.KindFencedCodeBlock, s.code)
	register.Register(ast.KindCodeBlock, s.code)
	register.Register(ast.KindCodeSpan, s.codeSpan)
	register.Register(ast.KindHeading, s.heading)
	register.Register(markup.KindFormula, s.formula)
	register.Register(markup.KindFormulaBlock, s.formulaBlock)
	register.Register(east.KindTable, s.table)
}

// htmlBlock shows HTML as text.
func (safeRenderer) htmlBlock(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		block := node.(*ast.HTMLBlock)
		text := block.Lines().Value(source)
		if block.HasClosure() {
			text = append(text, block.ClosureLine.Value(source)...)
		}
		write(w, `<p class="verbatim">`, template.HTMLEscapeString(string(text)), "</p>\n")
	}
	return ast.WalkSkipChildren, nil
}

func (safeRenderer) rawHTML(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		write(w, template.HTMLEscapeString(string(node.(*ast.RawHTML).Segments.Value(source))))
	}
	return ast.WalkSkipChildren, nil
}

func (safeRenderer) link(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	address, safe := destination(node.(*ast.Link).Destination)
	switch {
	case safe && entering:
		write(w, openLink(address))
	case safe:
		write(w, "</a>")
	case entering:
		write(w, `<span class="no-link" title="`, template.HTMLEscapeString(address), `">`)
	default:
		write(w, "</span>")
	}
	return ast.WalkContinue, nil
}

func (safeRenderer) autoLink(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	link := node.(*ast.AutoLink)
	label, target := template.HTMLEscapeString(string(link.Label(source))), link.URL(source)
	if link.AutoLinkType == ast.AutoLinkEmail {
		target = append([]byte("mailto:"), target...)
	}
	if address, safe := destination(target); safe {
		label = openLink(address) + label + "</a>"
	}
	write(w, label)
	return ast.WalkContinue, nil
}

// image shows an image as a link: loading it would tell its host who reads here.
func (safeRenderer) image(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	address, safe := destination(node.(*ast.Image).Destination)
	switch {
	case entering && safe:
		write(w, openLink(address), "Picture: ")
	case entering:
		write(w, `<span class="no-link" title="`, template.HTMLEscapeString(address), `">Picture: `)
	case safe:
		write(w, "</a>")
	default:
		write(w, "</span>")
	}
	return ast.WalkContinue, nil
}

// destination reads an address as a browser does, and reports whether it is safe
// to follow.
func destination(raw []byte) (address string, safe bool) {
	plain := util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(raw)))
	target, err := url.Parse(string(plain))
	if err != nil {
		return string(plain), false
	}
	switch target.Scheme {
	case "http", "https":
		return string(util.URLEscape(plain, false)), target.Host != ""
	case "mailto":
		return string(util.URLEscape(plain, false)), true
	}
	return string(plain), false
}

func openLink(address string) string {
	return `<a href="` + template.HTMLEscapeString(address) + `" target="_blank" rel="noopener noreferrer">`
}

// code renders a block of code with its language and a button to copy it, which
// needs a script.
func (safeRenderer) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := ""
	if fenced, is := node.(*ast.FencedCodeBlock); is {
		language = string(fenced.Language(source))
	}
	write(w, codeBlock(language, string(node.Lines().Value(source))))
	return ast.WalkSkipChildren, nil
}

// Code returns a text as a block of code in a language, "" for none.
func Code(language, text string) template.HTML { return template.HTML(codeBlock(language, text)) }

// maxLanguage is how many bytes of a language's name are shown.
const maxLanguage = 32

func codeBlock(language, text string) string {
	label := template.HTMLEscapeString(strings.ToValidUTF8(language[:min(len(language), maxLanguage)], ""))
	grammar := ""
	if name := grammarOf(language); name != "" {
		grammar = ` data-grammar="` + name + `"`
	}
	return `<figure class="code"><figcaption><span>` + label + `</span>` +
		`<button type="button" class="copy" hidden>Copy</button></figcaption>` +
		`<pre tabindex="0"><code` + grammar + `>` + template.HTMLEscapeString(text) + "</code></pre></figure>\n"
}

// codeSpan renders code within a line. A short command, such as "/history 2", is never
// broken at the end of a line, where a browser would break it behind the slash.
func (safeRenderer) codeSpan(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	var text strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if part, is := child.(*ast.Text); is {
			text.WriteString(strings.ReplaceAll(string(part.Segment.Value(source)), "\n", " "))
		}
	}
	class := ""
	if strings.HasPrefix(text.String(), "/") && text.Len() <= maxUnbroken {
		class = ` class="command"`
	}
	write(w, "<code", class, ">", template.HTMLEscapeString(text.String()), "</code>")
	return ast.WalkSkipChildren, nil
}

// maxUnbroken is how many bytes of a command are kept in one line: they fit on a phone.
const maxUnbroken = 32

// formula renders a formula within a line, as it was written. A script typesets it from
// the TeX in its attribute.
func (safeRenderer) formula(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		formula := node.(*markup.Formula)
		write(w, formulaElement("span", string(formula.Source), formula.TeX(), formula.Display))
	}
	return ast.WalkSkipChildren, nil
}

func (safeRenderer) formulaBlock(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		formula := node.(*markup.FormulaBlock)
		write(w, formulaElement("div", formula.Source(source), formula.TeX(source), true), "\n")
	}
	return ast.WalkSkipChildren, nil
}

func formulaElement(tag, source, tex string, display bool) string {
	class := "math"
	if display {
		class = "math display"
	}
	return `<` + tag + ` class="` + class + `" data-tex="` + template.HTMLEscapeString(tex) + `">` + template.HTMLEscapeString(source) + `</` + tag + `>`
}

// heading renders a heading two levels lower than written: the page has its own
// above.
func (safeRenderer) heading(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	tag := "h" + strconv.Itoa(min(node.(*ast.Heading).Level+2, 6)) + ">"
	if entering {
		write(w, "<", tag)
	} else {
		write(w, "</", tag, "\n")
	}
	return ast.WalkContinue, nil
}

// table renders a table that scrolls sideways where it is wider than the page.
func (safeRenderer) table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		write(w, `<div class="table" tabindex="0"><table>`, "\n")
	} else {
		write(w, "</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// write writes pieces to a buffer in memory, which never fails.
func write(w util.BufWriter, pieces ...string) {
	for _, piece := range pieces {
		_, _ = w.WriteString(piece)
	}
}
