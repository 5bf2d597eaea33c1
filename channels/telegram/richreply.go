package telegram

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"parley/channels"
	"parley/conversation"
	"parley/markup"
	"parley/plaintext"
)

// Limits of rich messages: https://core.telegram.org/bots/api#rich-message-limits
const (
	maxRichText    = 32768 // characters
	maxRichBlocks  = 500   // blocks, with those inside of others, items of lists and rows of tables
	maxRichColumns = 20

	maxStyles = 6 // styles of a text inside of one another, which count as depth, too
)

// richReplies are replies that are sent as rich messages:
// https://core.telegram.org/bots/api#sendrichmessage
type richReplies struct {
	on      bool
	missing atomic.Bool // the server has no rich messages
}

// richForm returns the rich message of a reply, as JSON. It is "" for a reply that goes as
// an ordinary message: one of several messages, with a file, or without a table, a
// formula, a heading, a list and code.
func (c *Channel) richForm(to address, d conversation.Delivery, p channels.Part) string {
	if !c.rich.on || c.rich.missing.Load() || p.Index > 0 || p.File != nil || to.Alone != nil {
		return ""
	}
	if parts := c.Split(d); len(parts) != 1 || parts[0] != p {
		return ""
	}
	message, ok := c.renderer.richMessage(plaintext.Clean(d.Text))
	if !ok {
		return ""
	}
	return mustJSON(message)
}

// isRefused reports whether the server refuses a message only because it is a rich one, as
// far as can be told: the ordinary form is tried next.
func (r *richReplies) isRefused(log *slog.Logger, chat int64, refused *tgbotapi.Error) bool {
	// An older server that is to edit a message does not see rich_message, and misses the text.
	if refused.Code == http.StatusNotFound || strings.Contains(refused.Message, "text is empty") {
		if !r.missing.Swap(true) {
			log.Warn("rich messages refused by Telegram, sending ordinary ones", "error", refused)
		}
		return true
	}
	if refused.Code != http.StatusBadRequest || refused.MigrateToChatID != 0 {
		return false
	}
	log.Warn("rich message refused by Telegram, sending an ordinary one", "chat", chat, "error", refused)
	return true
}

// sentRich is a rich message as it is sent: https://core.telegram.org/bots/api#inputrichmessage
type sentRich struct {
	Blocks []sentBlock `json:"blocks"`
	RTL    bool        `json:"is_rtl,omitempty"`
}

// sentBlock is any of the blocks, by their type: https://core.telegram.org/bots/api#inputrichblock
type sentBlock struct {
	Type       string       `json:"type"`
	Text       any          `json:"text,omitempty"` // see sentText
	Size       int          `json:"size,omitempty"` // level of a heading, from 1, which is the largest
	Language   string       `json:"language,omitempty"`
	Expression string       `json:"expression,omitempty"`
	Blocks     []sentBlock  `json:"blocks,omitempty"`
	Items      []sentItem   `json:"items,omitempty"`
	Cells      [][]sentCell `json:"cells,omitempty"`
	Bordered   bool         `json:"is_bordered,omitempty"`
}

// sentItem is one of a list. One with a value has it as its number.
type sentItem struct {
	Blocks  []sentBlock `json:"blocks"`
	Box     bool        `json:"has_checkbox,omitempty"`
	Checked bool        `json:"is_checked,omitempty"`
	Value   *int        `json:"value,omitempty"`
	Type    string      `json:"type,omitempty"`
}

type sentCell struct {
	Text   any    `json:"text,omitempty"`
	Header bool   `json:"is_header,omitempty"`
	Align  string `json:"align"`
	VAlign string `json:"valign"`
}

// sentText is a text with a look. A text is a string, one of these, or a list of texts.
type sentText struct {
	Type       string `json:"type"`
	Text       any    `json:"text,omitempty"`
	URL        string `json:"url,omitempty"`
	Expression string `json:"expression,omitempty"`
}

// richMessage returns clean markdown as a rich message. ok is false where the ordinary form
// shows as much, and where Telegram's limits do not allow the rich one.
func (r *renderer) richMessage(source string) (m sentRich, ok bool) {
	if isPlain(source) || utf8.RuneCountInString(source) > maxRichText {
		return m, false
	}
	src := []byte(source)
	doc, err := r.parser.Parse(src)
	if err != nil || !gainsByRich(doc) {
		return m, false
	}
	w := richWriter{src: src}
	m.Blocks, m.RTL = w.list(doc, 1), isRTL(source)
	return m, !w.failed && w.count <= maxRichBlocks && len(m.Blocks) > 0
}

// gainsByRich reports whether a document has what ordinary messages show with less.
func gainsByRich(doc ast.Node) (gains bool) {
	_ = ast.Walk(doc, func(n ast.Node, _ bool) (ast.WalkStatus, error) { // never fails
		switch n.(type) {
		case *ast.Heading, *ast.List, *ast.FencedCodeBlock, *ast.CodeBlock, *east.Table, *markup.Formula, *markup.FormulaBlock:
			gains = true
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return gains
}

// isRTL reports whether the first letter of a text is one of a script that is written from
// right to left.
func isRTL(text string) bool {
	for _, r := range text {
		if unicode.IsLetter(r) {
			return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko)
		}
	}
	return false
}

// richWriter makes the blocks of a document.
type richWriter struct {
	src    []byte
	count  int  // number of blocks, items and rows
	failed bool // a limit is exceeded, or a block would be empty, which may be refused
}

// list returns the blocks inside of a node, which are depth deep.
func (w *richWriter) list(parent ast.Node, depth int) (blocks []sentBlock) {
	if depth+maxStyles > maxRichDepth {
		w.failed = true
		return nil
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if _, hidden := n.(*ast.LinkReferenceDefinition); hidden {
			continue
		}
		w.count++
		blocks = append(blocks, w.block(n, depth))
	}
	return blocks
}

func (w *richWriter) block(n ast.Node, depth int) sentBlock {
	switch n := n.(type) {
	case *ast.Heading:
		return sentBlock{Type: "heading", Text: w.text(n), Size: n.Level}
	case *ast.Blockquote:
		return sentBlock{Type: "blockquote", Blocks: w.filled(n, depth)}
	case *ast.List:
		return w.listBlock(n, depth)
	case *ast.FencedCodeBlock:
		return w.code(n, language(n.Language(w.src)))
	case *ast.CodeBlock:
		return w.code(n, "")
	case *east.Table:
		return w.table(n)
	case *markup.FormulaBlock:
		tex := n.TeX(w.src)
		w.failed = w.failed || tex == ""
		return sentBlock{Type: "mathematical_expression", Expression: tex}
	case *ast.ThematicBreak:
		return sentBlock{Type: "divider"}
	}
	return sentBlock{Type: "paragraph", Text: w.text(n)}
}

// filled returns the blocks inside of a block that may not be empty.
func (w *richWriter) filled(n ast.Node, depth int) []sentBlock {
	blocks := w.list(n, depth+1)
	w.failed = w.failed || len(blocks) == 0
	return blocks
}

func (w *richWriter) listBlock(n *ast.List, depth int) sentBlock {
	b := sentBlock{Type: "list"}
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		w.count++
		to := sentItem{Blocks: w.filled(item, depth)}
		if box := boxOf(item); box != nil {
			to.Box, to.Checked = true, box.IsChecked
		}
		if n.IsOrdered() {
			value := number
			to.Value, to.Type = &value, "1"
			number++
		}
		b.Items = append(b.Items, to)
	}
	return b
}

func (w *richWriter) code(n ast.Node, lang string) sentBlock {
	code := strings.TrimRight(string(n.Lines().Value(w.src)), "\n")
	w.failed = w.failed || strings.TrimSpace(code) == ""
	return sentBlock{Type: "pre", Text: code, Language: lang}
}

func (w *richWriter) table(n *east.Table) sentBlock {
	b := sentBlock{Type: "table", Bordered: true}
	w.failed = w.failed || len(n.Alignments) > maxRichColumns
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		w.count++
		var cells []sentCell
		for cell := row.FirstChild(); cell != nil && len(cells) < len(n.Alignments); cell = cell.NextSibling() {
			to := sentCell{Header: row == n.FirstChild(), Align: "left", VAlign: "middle"}
			switch n.Alignments[len(cells)] {
			case east.AlignRight:
				to.Align = "right"
			case east.AlignCenter:
				to.Align = "center"
			}
			if cell.FirstChild() != nil {
				to.Text = w.text(cell)
			}
			cells = append(cells, to)
		}
		b.Cells = append(b.Cells, cells)
	}
	return b
}

// text returns the text of a paragraph, a heading or a cell.
func (w *richWriter) text(n ast.Node) any {
	inner := &writer{src: w.src, gap: 1, unboxed: true}
	if html, ok := n.(*ast.HTMLBlock); ok {
		inner.block(html)
	} else {
		inner.inlines(n)
	}
	texts := styledText{text: string(inner.out), runs: inner.runs}.rich()
	switch len(texts) {
	case 0:
		w.failed = true
	case 1:
		return texts[0]
	}
	return texts
}

// rich returns the runs of a text as texts of a rich message.
func (t styledText) rich() (texts []any) {
	start := 0
	for _, r := range t.runs {
		texts = append(texts, r.style.rich(t.text[start:r.end]))
		start = r.end
	}
	return texts
}

// rich returns a text in this style.
func (s style) rich(text string) any {
	var to any = text
	if s.tex != "" {
		to = sentText{Type: "mathematical_expression", Expression: s.tex}
	}
	for _, look := range []struct {
		on   bool
		name string
	}{{s.monospace, "code"}, {s.strike, "strikethrough"}, {s.underline, "underline"}, {s.italic, "italic"}, {s.bold, "bold"}} {
		if look.on {
			to = sentText{Type: look.name, Text: to}
		}
	}
	if s.href != "" {
		to = sentText{Type: "url", Text: to, URL: s.href}
	}
	return to
}
