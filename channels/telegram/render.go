package telegram

import (
	"html"
	"net/url"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"

	"parley/channels/markdown"
	"parley/markup"
	"parley/plaintext"
)

const (
	maxIndent = 6  // levels of lists that are indented
	maxLang   = 32 // bytes of a code block's language
	maxHref   = 2048
)

// renderer turns markdown into styled text.
type renderer struct{ parser *markup.Parser }

func newRenderer() *renderer {
	md := goldmark.New(goldmark.WithExtensions(extension.Strikethrough, extension.Table, extension.TaskList, markup.Math{}))
	return &renderer{markup.NewParser(md)}
}

// render reads clean markdown. It leaves a text as it is that would take too long
// to parse.
func (r *renderer) render(source string) styledText {
	if isPlain(source) {
		return plain(source)
	}
	src := []byte(source)
	doc, err := r.parser.Parse(src)
	if err != nil {
		return plain(source)
	}
	w := &writer{src: src, gap: 2}
	w.blocks(doc)
	return styledText{string(w.out), w.runs, w.code}
}

// writer walks a document and writes styled text.
type writer struct {
	src   []byte
	out   []byte
	runs  []run
	code  []markdown.Range
	style style

	gap    int  // line ends between two blocks
	depth  int  // depth of nested lists
	marked bool // a list marker was just written: the next block follows on its line

	unboxed bool // the checkboxes of tasks are left out
}

// write appends text in the current style.
func (w *writer) write(text string) {
	if text == "" {
		return
	}
	w.out = append(w.out, text...)
	s := w.style.allowed()
	if n := len(w.runs); n > 0 && w.runs[n-1].style == s {
		w.runs[n-1].end = len(w.out)
		return
	}
	w.runs = append(w.runs, run{len(w.out), s})
}

// begin starts a block, after as many line ends as lines says.
func (w *writer) begin(lines int) {
	if w.marked {
		w.marked = false
		return
	}
	if len(w.out) == 0 {
		return
	}
	have := 0
	for have < len(w.out) && w.out[len(w.out)-1-have] == '\n' {
		have++
	}
	w.write(strings.Repeat("\n", max(0, lines-have)))
}

// indent returns the white space before a line in a list.
func (w *writer) indent(depth int) string {
	return strings.Repeat("  ", min(max(depth, 0), maxIndent))
}

func (w *writer) blocks(parent ast.Node) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.block(n)
	}
}

func (w *writer) block(n ast.Node) {
	outer := w.style
	defer func() { w.style = outer }()
	switch n := n.(type) {
	case *ast.Heading:
		w.begin(w.gap)
		w.style.bold = true
		w.inlines(n)
	case *ast.Blockquote:
		w.begin(w.gap)
		w.style.quote = true
		w.blocks(n)
	case *ast.List:
		w.list(n)
	case *ast.FencedCodeBlock:
		w.codeBlock(n, language(n.Language(w.src)))
	case *ast.CodeBlock:
		w.codeBlock(n, "")
	case *east.Table:
		w.table(n)
	case *markup.FormulaBlock: // Telegram shows none, so formulas stay as they were written
		w.begin(w.gap)
		w.write(n.Source(w.src))
	case *ast.ThematicBreak:
		w.begin(w.gap)
		w.write("———")
	case *ast.HTMLBlock:
		w.begin(w.gap)
		lines := string(n.Lines().Value(w.src))
		if n.HasClosure() {
			lines += string(n.ClosureLine.Value(w.src))
		}
		w.write(strings.TrimRight(lines, "\n"))
	case *ast.LinkReferenceDefinition:
	default: // paragraphs
		w.beginText()
		w.inlines(n)
	}
}

// beginText starts a paragraph, indented in a list.
func (w *writer) beginText() {
	marked := w.marked
	w.begin(w.gap)
	if !marked && w.depth > 0 {
		w.write(w.indent(w.depth))
	}
}

func (w *writer) list(n *ast.List) {
	gap := w.gap
	w.begin(w.gap)
	if w.gap = 2; n.IsTight {
		w.gap = 1
	}
	w.depth++
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		w.marked = false
		w.begin(w.gap)
		w.write(w.indent(w.depth - 1))
		switch {
		case n.IsOrdered():
			w.write(strconv.Itoa(number) + ". ")
			number++
		case boxOf(item) == nil:
			w.write("• ")
		}
		w.marked = true
		w.blocks(item)
	}
	w.marked = false
	w.depth--
	w.gap = gap
}

// boxOf returns the checkbox of a list item, nil if it has none.
func boxOf(item ast.Node) *east.TaskCheckBox {
	first := item.FirstChild()
	if first == nil {
		return nil
	}
	box, _ := first.FirstChild().(*east.TaskCheckBox)
	return box
}

func (w *writer) codeBlock(n ast.Node, lang string) {
	if w.marked {
		w.marked = false
		w.begin(1)
	}
	w.begin(w.gap)
	from := len(w.out)
	w.style = style{pre: true, lang: lang}
	w.write(strings.TrimRight(string(n.Lines().Value(w.src)), "\n"))
	if len(w.out) > from {
		w.code = append(w.code, markdown.Range{From: from, To: len(w.out)})
	}
}

// language returns the name of a code block's language, of the characters that
// such names have.
func language(info []byte) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("+-#._", r) {
			return r
		}
		return -1
	}, string(info))
	return name[:min(len(name), maxLang)]
}

func (w *writer) inlines(parent ast.Node) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.inline(n)
	}
}

func (w *writer) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		w.textNode(n)
	case *ast.String:
		w.write(string(n.Value))
	case *markup.Formula:
		w.style.tex = n.TeX()
		w.write(string(n.Source))
		w.style.tex = ""
	case *ast.CodeSpan:
		w.styled(n, func(s *style) { s.monospace = true })
	case *ast.Emphasis:
		w.styled(n, func(s *style) { s.bold, s.italic = s.bold || n.Level == 2, s.italic || n.Level == 1 })
	case *east.Strikethrough:
		w.styled(n, func(s *style) { s.strike = true })
	case *ast.Link:
		w.link(n, n.Destination)
	case *ast.Image:
		w.link(n, n.Destination)
	case *ast.AutoLink:
		w.write(string(n.Label(w.src))) // Telegram finds addresses by itself
	case *ast.RawHTML:
		w.rawHTML(string(n.Segments.Value(w.src)))
	case *east.TaskCheckBox:
		switch {
		case w.unboxed:
		case n.IsChecked:
			w.write("☑ ")
		default:
			w.write("☐ ")
		}
	default:
		w.inlines(n)
	}
}

func (w *writer) styled(n ast.Node, change func(*style)) {
	outer := w.style
	change(&w.style)
	w.inlines(n)
	w.style = outer
}

func (w *writer) textNode(n *ast.Text) {
	value := n.Value(w.src)
	switch {
	case w.style.monospace:
		w.write(strings.ReplaceAll(string(value), "\n", " "))
	case n.IsRaw():
		w.write(string(value))
	default:
		w.write(unescape(value))
	}
	if (n.SoftLineBreak() || n.HardLineBreak()) && n.NextSibling() != nil {
		w.write("\n" + w.indent(w.depth))
	}
}

// unescape resolves markdown's backslashes and HTML's references.
func unescape(value []byte) string { return plaintext.Clean(markup.Unescape(string(value))) }

// link writes a link or an image. Telegram drops links that are not absolute, so
// their destination is shown.
func (w *writer) link(n ast.Node, destination []byte) {
	outer := w.style
	defer func() { w.style = outer }()
	href := string(util.URLEscape(destination, true))
	usable := isAbsolute(href) && outer.href == ""
	if usable {
		w.style.href = href
	}
	before := len(w.out)
	w.inlines(n)
	if !markdown.Visible(string(w.out[before:])) {
		w.write(plaintext.Clean(html.UnescapeString(string(destination))))
		return
	}
	w.style = outer
	if !usable && href != "" && outer.href == "" && !strings.HasPrefix(href, "#") {
		w.write(" (" + plaintext.Clean(string(destination)) + ")")
	}
}

func isAbsolute(href string) bool {
	u, err := url.Parse(href)
	if err != nil || len(href) > maxHref {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Host != ""
	case "mailto", "tel", "tg":
		return true
	}
	return false
}

// rawHTML interprets the few tags that models like to write for what markdown
// lacks. It shows all others as they are.
func (w *writer) rawHTML(tag string) {
	name := strings.ToLower(strings.Trim(tag, "<>/ "))
	on := !strings.HasPrefix(tag, "</")
	switch name {
	case "br":
		w.write("\n" + w.indent(w.depth))
	case "u", "ins":
		w.style.underline = on
	case "b", "strong":
		w.style.bold = on
	case "i", "em":
		w.style.italic = on
	case "s", "del":
		w.style.strike = on
	default:
		w.write(tag)
	}
}
