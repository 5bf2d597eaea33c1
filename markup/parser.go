// Package markup parses markdown with a bound on the work.
package markup

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// ErrCostly says that a text is built so that parsing it takes far longer than
// its length explains, or nested deeper than anybody reads. Such a text is better
// shown as it is.
var ErrCostly = errors.New("the markdown is too costly to parse")

// The bound on the work for a text, in steps of about a nanosecond: no person
// writes what needs more. It grows with the text alone.
const (
	baseSteps    = 2_000_000
	stepsPerByte = 128
)

// maxDepth is how deep quotes, lists and emphasis may be nested. Who renders a
// document may go down it without a bound of its own.
const maxDepth = 100

// Parser parses markdown, and gives up where the work passes the bound. It is
// safe for concurrent use.
type Parser struct{ parser parser.Parser }

// NewParser returns a parser with the extensions of md, whose own parser is no
// longer to be used.
func NewParser(md goldmark.Markdown) *Parser {
	md.Parser().AddOptions(metered{})
	return &Parser{md.Parser()}
}

// Parse returns the document, or an error: ErrCostly, or what the parser has
// panicked with. Definitions of links that nothing refers to are text.
func (p *Parser) Parse(source []byte) (doc ast.Node, err error) {
	doc, _, err = p.parse(source)
	return doc, err
}

// parse returns the steps as well.
func (p *Parser) parse(source []byte) (doc ast.Node, steps int, err error) {
	m := &meter{limit: baseSteps + stepsPerByte*len(source)}
	m.inlines.m = m
	defer func() {
		switch cause := recover(); {
		case cause == ErrCostly:
			doc, steps, err = nil, m.steps, ErrCostly
		case cause != nil:
			doc, steps, err = nil, m.steps, fmt.Errorf("parsing markdown: %v", cause)
		}
	}()
	pc := parser.NewContext()
	pc.Set(meterKey, m)
	doc = p.parser.Parse(&lines{runes{text.NewReader(source), m}}, parser.WithContext(pc))
	checkDepth(doc)
	showUnused(doc, source)
	return doc, m.steps, nil
}

// checkDepth panics with ErrCostly where the document is nested too deep.
func checkDepth(doc ast.Node) {
	depth := 0
	_ = ast.Walk(doc, func(_ ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			depth--
			return ast.WalkContinue, nil
		}
		if depth++; depth > maxDepth {
			panic(ErrCostly)
		}
		return ast.WalkContinue, nil
	})
}

// meter counts the steps of one parse. Goldmark can't be stopped from outside,
// so every parser that it calls is charged for what it may have looked at.
type meter struct {
	limit, steps int

	block      ast.Node           // the block whose inlines are being parsed
	delimiters []parser.Delimiter // delimiters of block, as goldmark will have them in its list
	open       []bracket          // brackets of block that may begin a link
	inlines    runes              // what the inline parsers read
}

var meterKey = parser.NewContextKey()

func meterOf(pc parser.Context) *meter { return pc.Get(meterKey).(*meter) }

// charge panics with ErrCostly beyond the limit.
func (m *meter) charge(steps int) {
	if m.steps += steps; m.steps > m.limit {
		panic(ErrCostly)
	}
}

// enter takes note of the block whose inlines are being parsed.
func (m *meter) enter(block ast.Node) {
	if m.block != block {
		m.block, m.delimiters, m.open = block, m.delimiters[:0], m.open[:0]
	}
}

// bracket is one that may begin a link.
type bracket struct {
	at         int // offset in bytes
	delimiters int // number of delimiters before the bracket
}

// delimiterSteps is the cost of going from one delimiter to another, which may
// be anywhere in memory.
const delimiterSteps = 4

// delimit charges for what parser.ProcessDelimiters will do with a delimiter. It
// plays that through, since what one search costs depends on what those before
// have left. Where a bracket is open, which may become a link or not, it takes
// the worse of both: the search goes on below the bracket and changes nothing
// there.
func (m *meter) delimit(closer parser.Delimiter) {
	bottom := 0
	if n := len(m.open); n > 0 {
		bottom = min(m.open[n-1].delimiters, len(m.delimiters))
	}
	opened := bottom > 0 // with some opener, perhaps
	for at := len(m.delimiters) - 1; closer.CanClose && closer.Length > 0; at-- {
		if at < bottom {
			m.charge(delimiterSteps * bottom)
			break
		}
		m.charge(delimiterSteps)
		opener := &m.delimiters[at]
		if !opener.CanOpen || opener.Char != closer.Char {
			continue
		}
		opened = true
		if consumed := opener.CalcComsumption(&closer); consumed > 0 {
			opener.Length -= consumed
			closer.Length -= consumed
			m.delimiters = m.delimiters[:at+1]
			if opener.Length == 0 {
				m.delimiters = m.delimiters[:at]
			}
			at = len(m.delimiters)
		}
	}
	if closer.Length > 0 && (closer.CanOpen || !closer.CanClose || opened) {
		m.delimiters = append(m.delimiters, closer)
	}
}

// metered is the option that puts a meter before every parser of a
// configuration.
type metered struct{}

// SetParserOption implements parser.Option.
func (metered) SetParserOption(c *parser.Config) {
	for i, p := range c.InlineParsers {
		c.InlineParsers[i].Value = newInline(p.Value.(parser.InlineParser))
	}
	for i, p := range c.ParagraphTransformers {
		c.ParagraphTransformers[i].Value = paragraphs{p.Value.(parser.ParagraphTransformer)}
	}
	for i, p := range c.ASTTransformers {
		c.ASTTransformers[i].Value = documents{p.Value.(parser.ASTTransformer)}
	}
}

// runeSteps is the cost of one rune in an expression.
const runeSteps = 32

// runes is a reader that charges for the runes that expressions read.
type runes struct {
	text.Reader
	m *meter
}

func (r *runes) ReadRune() (rune, int, error) {
	r.m.charge(runeSteps)
	return r.Reader.ReadRune()
}

// Match is that of the reader, through ReadRune above.
func (r *runes) Match(expression *regexp.Regexp) bool {
	line, at := r.Position()
	found := expression.FindReaderSubmatchIndex(r)
	r.SetPosition(line, at)
	if found == nil {
		return false
	}
	r.Advance(found[1] - found[0])
	return true
}

// lines is a reader that charges for the lines that block parsers look at too.
type lines struct{ runes }

func (r *lines) PeekLine() ([]byte, text.Segment) {
	line, at := r.Reader.PeekLine()
	r.m.charge(1 + len(line))
	return line, at
}

// inline is an inline parser with its price.
type inline struct {
	parser.InlineParser
	price func(*call)
}

// call is one call of an inline parser.
type call struct {
	*meter
	block  ast.Node
	line   []byte // the text from where the call began to the end of the line
	from   int
	result ast.Node // what the parser found; nil for nothing
	taken  int      // bytes that the parser has read
}

// rest returns the number of bytes of the block after the position where the call began.
func (c *call) rest() int {
	all := c.block.Lines()
	return all.At(all.Len()-1).Stop - c.from
}

// newInline returns a parser with its price: the bytes that it may read without
// consuming them. Consumed bytes are read once. A parser that is not known here
// may read the rest of the block each time.
func newInline(p parser.InlineParser) inline {
	price := func(c *call) { c.charge(c.rest()) }
	none := func(*call) {}
	for _, known := range []struct {
		parser parser.InlineParser
		price  func(*call)
	}{
		{parser.NewEmphasisParser(), (*call).delimiter},
		{extension.NewStrikethroughParser(), (*call).delimiter},
		{parser.NewCodeSpanParser(), (*call).codeSpan},
		{parser.NewLinkParser(), (*call).link},
		{parser.NewAutoLinkParser(), none}, // looks up to the next bracket at most
		{extension.NewLinkifyParser(), (*call).address},
		{parser.NewRawHTMLParser(), none}, // remembers what it has not found, and pays for the runes that it reads
		{extension.NewTaskCheckBoxParser(), none},
		{inlineMath{}, (*call).formula},
		{space{}, none},
	} {
		if reflect.TypeOf(p) == reflect.TypeOf(known.parser) {
			price = known.price
		}
	}
	return inline{p, price}
}

// Parse implements parser.InlineParser.
func (p inline) Parse(block ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	m := meterOf(pc)
	m.enter(block)
	c := call{meter: m, block: block}
	line, at := reader.PeekLine()
	c.line, c.from = line, at.Start
	m.inlines.Reader = reader
	c.result = p.InlineParser.Parse(block, &m.inlines, pc)
	_, at = reader.Position()
	c.taken = at.Start - c.from
	m.charge(1)
	p.price(&c)
	return c.result
}

// CloseBlock implements parser.CloseBlocker.
func (p inline) CloseBlock(block ast.Node, reader text.Reader, pc parser.Context) {
	if closer, ok := p.InlineParser.(parser.CloseBlocker); ok {
		closer.CloseBlock(block, reader, pc)
	}
}

// delimiter charges for a delimiter: a run is scanned to its end, and one that closes is compared with
// those before it until its opener is found.
func (c *call) delimiter() {
	c.charge(len(c.line) - len(bytes.TrimLeft(c.line, string(c.line[:1]))))
	if d, found := c.result.(*parser.Delimiter); found {
		c.delimit(*d)
	}
}

// codeSpan charges for a code span: without an end, which is a text, the whole block is searched for it.
func (c *call) codeSpan() {
	if _, found := c.result.(*ast.CodeSpan); !found {
		c.charge(c.rest())
	}
}

// formula charges for the search for the end of a formula.
func (c *call) formula() { c.charge(min(c.rest(), maxMath)) }

// link charges for a link: at its end everything in the brackets is scanned, and what may be
// an address or a reference behind them.
func (c *call) link() {
	if c.line[0] != ']' {
		if c.result != nil {
			c.open = append(c.open, bracket{c.from, len(c.delimiters)})
		}
		return
	}
	n := len(c.open)
	if n == 0 {
		return
	}
	opened := c.open[n-1]
	c.open = c.open[:n-1]
	c.charge(c.from - opened.at + c.block.Lines().Len())
	if c.result != nil {
		c.delimiters = c.delimiters[:min(opened.delimiters, len(c.delimiters))]
	}
	if c.taken > 1 || len(c.line) < 2 {
		return
	}
	switch rest := c.line[2:]; c.line[1] {
	case '[':
		c.search(rest, "[]")
	case '(':
		if rest = bytes.TrimLeft(rest, " \t"); bytes.HasPrefix(rest, []byte("<")) {
			c.search(rest, ">")
			return
		}
		end := c.search(rest, " \t\r\n")
		if title := bytes.TrimLeft(rest[end:], " \t\r\n"); len(title) == 0 || strings.IndexByte(`"'(`, title[0]) >= 0 {
			c.charge(c.rest())
		}
	}
}

// search charges for the way to the first of the characters: to the end of the
// block when the line has none of them.
func (c *call) search(line []byte, characters string) (at int) {
	if at = bytes.IndexAny(line, characters); at >= 0 {
		c.charge(at)
		return at
	}
	c.charge(c.rest())
	return len(line)
}

// addressSteps is the maximum cost of the expressions for an address if there is
// none: they read 256 characters.
const addressSteps = 20_000

// address charges for an address: an expression is tried where an address seems to begin.
func (c *call) address() {
	if c.result != nil {
		return
	}
	line := bytes.TrimLeft(c.line[:min(len(c.line), 8)], " *_~(\t")
	for _, beginning := range []string{"http:", "https:", "ftp:", "www."} {
		if bytes.HasPrefix(line, []byte(beginning)) {
			c.charge(addressSteps)
		}
	}
}

// paragraphs is a transformer of paragraphs with its price.
type paragraphs struct{ parser.ParagraphTransformer }

// Transform implements parser.ParagraphTransformer. Definitions of references
// are cut out of the lines one by one, and the rows of a table are filled up to
// the width of its header.
func (p paragraphs) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	m := meterOf(pc)
	all := node.Lines()
	definitions, columns := 0, 0
	for i := range all.Len() {
		at := all.At(i)
		line := at.Value(reader.Source())
		if bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("[")) {
			definitions++
		}
		if len(bytes.Trim(line, " \t\r\n|:-")) == 0 {
			columns = max(columns, 1+bytes.Count(line, []byte("|")))
		}
	}
	m.charge((definitions + cellSteps*columns) * all.Len())
	p.ParagraphTransformer.Transform(node, reader, pc)
}

// cellSteps is the cost of an empty cell, with its memory and its rendering.
const cellSteps = 64

// documents is a transformer of documents with its price.
type documents struct{ parser.ASTTransformer }

// Transform implements parser.ASTTransformer. Pipes that are escaped in the code
// of a table's cells are all compared with each other.
func (d documents) Transform(node *ast.Document, reader text.Reader, pc parser.Context) {
	escaped := 0
	for line := range bytes.Lines(reader.Source()) {
		if code := bytes.IndexByte(line, '`'); code >= 0 {
			escaped += bytes.Count(line[code:], []byte(`\|`))
		}
	}
	meterOf(pc).charge(escaped * escaped / 4)
	d.ASTTransformer.Transform(node, reader, pc)
}
