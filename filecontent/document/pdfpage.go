package document

import (
	"math"
	"strings"

	"github.com/ledongthuc/pdf"
)

// matrix is a transformation [a b c d e f] of PDF (ISO 32000-1, 8.3.3).
type matrix [6]float64

var unmoved = matrix{1, 0, 0, 1, 0, 0}

// after returns the transformation that applies m, and then n.
func (m matrix) after(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

func moved(x, y float64) matrix { return matrix{1, 0, 0, 1, x, y} }

// textState is what the operators of PDF set for the text that follows (ISO 32000-1, 9.3).
type textState struct {
	page      matrix // from the user's space to the page
	font      *pageFont
	size      float64
	leading   float64
	charSpace float64
	wordSpace float64
	scale     float64 // horizontal scale; 1 = unscaled
}

// pageText reads the text of one page in the order in which it is drawn, which is the one
// that people read in nearly all documents, also where there are several columns.
type pageText struct {
	scopes []*scope          // the scope of the page, and those of the forms that are being drawn
	forms  map[uint64]*scope // scopes of forms that were read, by the number of the form's object
	silent map[uint64]bool   // forms without text, by the number of their objects
	room   int               // bytes of text that are still read

	now   textState
	saved []textState
	text  matrix // position of the next glyph
	line  matrix // position at which its line begins
	lines []textLine
}

func newPageText(page pdfPage, room int) *pageText {
	return &pageText{
		scopes: []*scope{{resources: page.resources, fonts: map[string]*pageFont{}}},
		forms:  map[uint64]*scope{}, silent: map[uint64]bool{}, room: room,
	}
}

// maxSaved is how many states a page may save at once: readers of PDF need not take more
// than 28 (ISO 32000-1, annex C).
const maxSaved = 1000

// do carries out an operator.
func (p *pageText) do(stack *pdf.Stack, operator string) {
	args := make([]pdf.Value, stack.Len())
	for i := range args {
		args[len(args)-1-i] = stack.Pop()
	}
	number := func(i int) float64 {
		if i >= len(args) {
			return 0
		}
		return args[i].Float64()
	}
	switch operator {
	case "q":
		if len(p.saved) < maxSaved {
			p.saved = append(p.saved, p.now)
		}
	case "Q":
		if last := len(p.saved) - 1; last >= 0 {
			p.now, p.saved = p.saved[last], p.saved[:last]
		}
	case "cm":
		p.now.page = matrix{number(0), number(1), number(2), number(3), number(4), number(5)}.after(p.now.page)
	case "Tc":
		p.now.charSpace = number(0)
	case "Tw":
		p.now.wordSpace = number(0)
	case "Tz":
		p.now.scale = number(0) / 100
	case "TL":
		p.now.leading = number(0)
	case "Tf":
		if len(args) == 2 {
			p.now.font, p.now.size = p.fontNamed(args[0].Name()), number(1)
		}
	case "Do":
		if len(args) == 1 {
			p.drawForm(args[0].Name())
		}
	default:
		p.place(operator, args, number)
	}
}

// place carries out an operator that moves or shows text (ISO 32000-1, 9.4).
func (p *pageText) place(operator string, args []pdf.Value, number func(int) float64) {
	switch operator {
	case "BT":
		p.text, p.line = unmoved, unmoved
	case "Tm":
		p.line = matrix{number(0), number(1), number(2), number(3), number(4), number(5)}
		p.text = p.line
	case "TD":
		p.now.leading = -number(1)
		p.nextLine(number(0), number(1))
	case "Td":
		p.nextLine(number(0), number(1))
	case "T*":
		p.nextLine(0, -p.now.leading)
	case "Tj":
		p.showAll(args)
	case "'":
		p.nextLine(0, -p.now.leading)
		p.showAll(args)
	case `"`:
		p.now.wordSpace, p.now.charSpace = number(0), number(1)
		p.nextLine(0, -p.now.leading)
		p.showAll(args[min(2, len(args)):])
	case "TJ":
		if len(args) > 0 {
			for i := range args[0].Len() {
				p.showPiece(args[0].Index(i))
			}
		}
	}
}

func (p *pageText) nextLine(x, y float64) {
	p.line = moved(x, y).after(p.line)
	p.text = p.line
}

func (p *pageText) showAll(pieces []pdf.Value) {
	for _, piece := range pieces {
		p.showPiece(piece)
	}
}

// showPiece shows a text, or moves by a number of thousandths of the font's size.
func (p *pageText) showPiece(piece pdf.Value) {
	if piece.Kind() != pdf.String {
		p.text = moved(-piece.Float64()/1000*p.now.size*p.now.scale, 0).after(p.text)
		return
	}
	raw := piece.RawString()
	if p.now.font == nil || raw == "" {
		return
	}
	shown := p.now.font.decode(raw)
	width, codes, spaces := p.now.font.measure(raw)
	advance := (width/1000*p.now.size + codes*p.now.charSpace + spaces*p.now.wordSpace) * p.now.scale
	from := p.text.after(p.now.page)
	p.text = moved(advance, 0).after(p.text)
	p.add(shown, from, p.text.after(p.now.page))
	if p.room -= len(shown); p.room < 0 {
		panic(errFull) // Interpret can't be ended otherwise
	}
}

// add adds a text that was drawn from a place to another.
func (p *pageText) add(shown string, from, to matrix) {
	along, across := math.Hypot(from[0], from[1]), math.Hypot(from[2], from[3])
	size := math.Abs(p.now.size) * across
	if along == 0 || size == 0 {
		return
	}
	direction := [2]float64{from[0] / along, from[1] / along}
	place := func(m matrix) (x, y float64) {
		return m[4]*direction[0] + m[5]*direction[1], m[5]*direction[0] - m[4]*direction[1]
	}
	piece := textPiece{text: shown, size: size}
	piece.start, piece.base = place(from)
	piece.end, _ = place(to)
	if last := len(p.lines) - 1; last >= 0 && p.lines[last].takes(piece, direction) {
		p.lines[last].pieces = append(p.lines[last].pieces, piece)
		return
	}
	p.lines = append(p.lines, textLine{direction: direction, pieces: []textPiece{piece}})
}

// read returns the text that the contents of a page draw. Of one that is broken it is the text up
// to there.
func (p *pageText) read(contents pdf.Value) (text string) {
	defer func() {
		if recover() != nil {
			text = joinLines(p.lines)
		}
	}()
	if contents.Kind() == pdf.Null {
		return ""
	}
	p.now = textState{page: unmoved, scale: 1}
	p.text, p.line = unmoved, unmoved
	pdf.Interpret(contents, p.do)
	return joinLines(p.lines)
}

// pageFont is a font with what text layout needs of it.
type pageFont struct {
	font   pdf.Font
	isWide bool            // the font's codes have two bytes
	widths map[int]float64 // widths of the glyphs of a wide font, by code
	usual  float64         // width of glyphs that widths does not have
}

// usualWidth is the width of glyphs of which the document says nothing, in thousandths
// of the font's size, as those of Helvetica have on average.
const usualWidth = 500

func (p *pageText) fontNamed(name string) *pageFont {
	in := p.in()
	if known, ok := in.fonts[name]; ok {
		return known
	}
	f := &pageFont{font: pdf.Font{V: in.resources.Key("Font").Key(name)}, usual: usualWidth}
	if f.font.V.Key("Subtype").Name() == "Type0" {
		f.isWide, f.widths = true, map[int]float64{}
		f.readWidths(f.font.V.Key("DescendantFonts").Index(0))
	}
	in.fonts[name] = f
	return f
}

// maxCode is the largest code of two bytes.
const maxCode = 1<<16 - 1

// readWidths reads the widths of a wide font (ISO 32000-1, 9.7.4.3).
func (f *pageFont) readWidths(cid pdf.Value) {
	if f.usual = 1000; !cid.Key("DW").IsNull() {
		f.usual = cid.Key("DW").Float64()
	}
	list := cid.Key("W")
	for i := 0; i+1 < list.Len(); {
		first, next := int(list.Index(i).Int64()), list.Index(i+1)
		if next.Kind() == pdf.Array {
			for n := range min(next.Len(), maxCode) {
				f.widths[first+n] = next.Index(n).Float64()
			}
			i += 2
			continue
		}
		width := list.Index(i + 2).Float64()
		for code := max(first, 0); code <= min(int(next.Int64()), maxCode); code++ {
			f.widths[code] = width
		}
		i += 3
	}
}

// decode returns the text of codes.
func (f *pageFont) decode(raw string) string {
	encoder := f.font.Encoder()
	if encoder == nil {
		return raw
	}
	var b strings.Builder
	for _, r := range encoder.Decode(raw) {
		b.WriteRune(r)
	}
	return b.String()
}

// measure returns the width of a text in thousandths of the font's size, how many codes it
// has, and how many of them are spaces.
func (f *pageFont) measure(raw string) (width, codes, spaces float64) {
	if f.isWide {
		for i := 0; i+1 < len(raw); i += 2 {
			w, known := f.widths[int(raw[i])<<8|int(raw[i+1])]
			if !known {
				w = f.usual
			}
			width, codes = width+w, codes+1
		}
		return width, codes, 0
	}
	for i := range len(raw) {
		w := f.font.Width(int(raw[i]))
		if w == 0 {
			w = f.usual
		}
		width += w
	}
	return width, float64(len(raw)), float64(strings.Count(raw, " "))
}
