package telegramtest

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Entity is one piece of formatting of a message, in UTF-16 code units of its text.
type Entity struct {
	Type     string `json:"type"`
	Offset   int    `json:"offset"`
	Length   int    `json:"length"`
	URL      string `json:"url,omitempty"`      // text_link
	Language string `json:"language,omitempty"` // pre
	User     *User  `json:"user,omitempty"`     // text_mention
}

// tags are the elements of Telegram's HTML and the entities that they make.
// https://core.telegram.org/bots/api#html-style
var tags = map[string]string{
	"b": "bold", "strong": "bold",
	"i": "italic", "em": "italic",
	"u": "underline", "ins": "underline",
	"s": "strikethrough", "strike": "strikethrough", "del": "strikethrough",
	"span": "spoiler", "tg-spoiler": "spoiler", "tg-emoji": "custom_emoji",
	"a": "text_link", "code": "code", "pre": "pre", "blockquote": "blockquote",
}

// ParseHTML reads a text in Telegram's HTML as strictly as its documentation
// is written: only the elements of the documentation, closed in order, with
// the attributes that they may have; and "<", ">" and "&" only as parts of
// elements and of the references &lt; &gt; &amp; &quot; and numbers. The
// real server forgives a lone ">" and an unknown reference.
func ParseHTML(source string) (text string, entities []Entity, err error) {
	p := htmlParser{source: source}
	for p.pos < len(source) {
		if err := p.step(); err != nil {
			return "", nil, err
		}
	}
	if n := len(p.open); n > 0 {
		return "", nil, fmt.Errorf("can't find end tag corresponding to start tag %q", p.open[n-1].tag)
	}
	return p.text.String(), p.entities, nil
}

type htmlParser struct {
	source   string
	pos      int
	text     strings.Builder
	units    int // of text, in UTF-16
	open     []openTag
	entities []Entity
}

type openTag struct {
	tag    string
	entity Entity
}

func (p *htmlParser) step() error {
	switch p.source[p.pos] {
	case '<':
		end := strings.IndexByte(p.source[p.pos:], '>')
		if end < 0 {
			return fmt.Errorf("unclosed start tag at byte offset %d", p.pos)
		}
		tag, at := p.source[p.pos+1:p.pos+end], p.pos
		p.pos += end + 1
		if name, ok := strings.CutPrefix(tag, "/"); ok {
			return p.close(name, at)
		}
		return p.start(tag, at)
	case '>':
		return fmt.Errorf("character '>' is not escaped at byte offset %d", p.pos)
	case '&':
		r, n, err := reference(p.source[p.pos:])
		if err != nil {
			return fmt.Errorf("%w at byte offset %d", err, p.pos)
		}
		p.write(r)
		p.pos += n
	default:
		r, n := utf8.DecodeRuneInString(p.source[p.pos:])
		p.write(r)
		p.pos += n
	}
	return nil
}

func (p *htmlParser) write(r rune) {
	p.text.WriteRune(r)
	p.units += utf16Len(r)
}

func utf16Len(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}

func (p *htmlParser) start(tag string, at int) error {
	name, attrs, _ := strings.Cut(tag, " ")
	kind, ok := tags[name]
	if !ok {
		return fmt.Errorf("unsupported start tag %q at byte offset %d", name, at)
	}
	entity := Entity{Type: kind, Offset: p.units}
	key, value, err := attribute(attrs)
	if err != nil {
		return fmt.Errorf("%w at byte offset %d", err, at)
	}
	switch {
	case name == "a" && key == "href":
		entity.URL = value
	case name == "code" && key == "class" && strings.HasPrefix(value, "language-"):
		entity.Language = strings.TrimPrefix(value, "language-")
	case name == "span" && key == "class" && value == "tg-spoiler":
	case name == "tg-emoji" && key == "emoji-id":
	case name == "blockquote" && attrs == "expandable":
	case attrs != "" || name == "span" || name == "a" || name == "tg-emoji":
		return fmt.Errorf("unexpected attributes %q of the tag %q at byte offset %d", attrs, name, at)
	}
	if err := p.mayHold(kind, at); err != nil {
		return err
	}
	p.open = append(p.open, openTag{name, entity})
	return nil
}

// mayHold checks the rules on nested entities: code and pre hold no other
// entity, but for the code in a pre that names its language; links and quotes
// hold none of their own kind.
func (p *htmlParser) mayHold(kind string, at int) error {
	for i, outer := range p.open {
		language := outer.tag == "pre" && kind == "code" && i == len(p.open)-1
		switch {
		case (outer.tag == "code" || outer.tag == "pre") && !language,
			outer.entity.Type == kind && (kind == "text_link" || kind == "blockquote"):
			return fmt.Errorf("%s inside of %s at byte offset %d", kind, outer.tag, at)
		}
	}
	return nil
}

func (p *htmlParser) close(name string, at int) error {
	if len(p.open) == 0 {
		return fmt.Errorf("unexpected end tag at byte offset %d", at)
	}
	last := p.open[len(p.open)-1]
	if name != last.tag {
		return fmt.Errorf("unmatched end tag at byte offset %d, expected \"</%s>\", found \"</%s>\"", at, last.tag, name)
	}
	p.open = p.open[:len(p.open)-1]
	last.entity.Length = p.units - last.entity.Offset
	if last.tag == "code" && len(p.open) > 0 && p.open[len(p.open)-1].tag == "pre" {
		p.open[len(p.open)-1].entity.Language = last.entity.Language
		return nil
	}
	if last.entity.Length > 0 {
		p.entities = append(p.entities, last.entity)
	}
	return nil
}

// attribute reads the only attribute that an element may have, in double quotes.
func attribute(attrs string) (key, value string, err error) {
	if attrs == "" || attrs == "expandable" {
		return "", "", nil
	}
	key, quoted, ok := strings.Cut(attrs, "=")
	if !ok || len(quoted) < 2 || quoted[0] != '"' || strings.IndexByte(quoted[1:], '"') != len(quoted)-2 {
		return "", "", fmt.Errorf("broken attributes %q", attrs)
	}
	var b strings.Builder
	for rest := quoted[1 : len(quoted)-1]; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		if r == '&' {
			if r, n, err = reference(rest); err != nil {
				return "", "", err
			}
		}
		b.WriteRune(r)
		rest = rest[n:]
	}
	return key, b.String(), nil
}

// reference reads the character reference that source begins with.
func reference(source string) (r rune, length int, err error) {
	end := strings.IndexByte(source[:min(len(source), 12)], ';')
	if end < 0 {
		return 0, 0, fmt.Errorf("character '&' is not escaped")
	}
	name := source[1:end]
	switch name {
	case "lt":
		return '<', end + 1, nil
	case "gt":
		return '>', end + 1, nil
	case "amp":
		return '&', end + 1, nil
	case "quot":
		return '"', end + 1, nil
	}
	if digits, ok := strings.CutPrefix(name, "#"); ok {
		base := 10
		if hex, ok := strings.CutPrefix(digits, "x"); ok {
			digits, base = hex, 16
		}
		if n, err := strconv.ParseUint(digits, base, 21); err == nil && n != 0 {
			return rune(n), end + 1, nil
		}
	}
	return 0, 0, fmt.Errorf("unknown reference %q", source[:end+1])
}
