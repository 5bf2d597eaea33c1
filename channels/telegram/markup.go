package telegram

import (
	"strings"

	"parley/channels/markdown"
)

// style is how a run of text looks, in the terms of Telegram's HTML:
// https://core.telegram.org/bots/api#html-style
type style struct {
	quote, pre                                 bool
	lang                                       string // language of pre; may be empty
	href                                       string
	bold, italic, underline, strike, monospace bool
	tex                                        string // the text is a formula; this is its TeX, which HTML has no element for
}

// allowed drops what Telegram does not nest: pre and code neither contain nor are
// contained in anything but quotes, and a link overrides code.
func (s style) allowed() style {
	switch {
	case s.pre:
		return style{pre: true, lang: s.lang}
	case s.monospace && s.href == "":
		return style{quote: s.quote, monospace: true}
	}
	s.monospace, s.lang = false, ""
	return s
}

// tag is an element, with the one attribute that it may have.
type tag struct{ name, attribute, value string }

// tags returns the elements of an allowed style, the outermost first.
func (s style) tags(to []tag) []tag {
	for _, t := range []struct {
		on bool
		tag
	}{
		{s.quote, tag{name: "blockquote"}},
		{s.pre, tag{name: "pre"}},
		{s.pre && s.lang != "", tag{"code", "class", "language-" + s.lang}},
		{s.href != "", tag{"a", "href", s.href}},
		{s.bold, tag{name: "b"}},
		{s.italic, tag{name: "i"}},
		{s.underline, tag{name: "u"}},
		{s.strike, tag{name: "s"}},
		{s.monospace, tag{name: "code"}},
	} {
		if t.on {
			to = append(to, t.tag)
		}
	}
	return to
}

// run is a stretch of text in one style. It ends where the next begins.
type run struct {
	end   int // offset in bytes
	style style
}

// styledText is text with its styles kept apart, so that it can be cut anywhere.
type styledText struct {
	text string
	runs []run
	code []markdown.Range // code blocks
}

// html returns the text from byte from to byte to in Telegram's HTML, and whether Telegram takes
// it as one message with all its styles. It closes the elements that the cut falls into; the
// text that follows opens them again.
func (t styledText) html(from, to int) (html string, fits bool) {
	var b strings.Builder
	b.Grow(to - from + 32)
	var open, want []tag
	start, entities, tags := 0, 0, 0
	for _, r := range t.runs {
		lo, hi := max(start, from), min(r.end, to)
		start = r.end
		if lo >= hi {
			continue
		}
		want = r.style.tags(want[:0])
		same := 0
		for same < len(open) && same < len(want) && open[same] == want[same] {
			same++
		}
		before := b.Len()
		closeTags(&b, open[same:])
		for _, tag := range want[same:] {
			tag.open(&b)
			if tag.attribute != "class" { // the language of a code block is part of its entity
				entities++
			}
		}
		tags += b.Len() - before
		open, want = want, open
		textEscapes.WriteString(&b, t.text[lo:hi])
	}
	closeTags(&b, open)
	return b.String(), entities <= maxStyled && tags <= maxTags && b.Len() <= maxSource
}

// Text and attributes keep to the only named references that Telegram knows.
var (
	textEscapes      = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	attributeEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
)

func (t tag) open(b *strings.Builder) {
	b.WriteString("<" + t.name)
	if t.attribute != "" {
		b.WriteString(" " + t.attribute + `="` + attributeEscapes.Replace(t.value) + `"`)
	}
	b.WriteByte('>')
}

func closeTags(b *strings.Builder, open []tag) {
	for i := len(open) - 1; i >= 0; i-- {
		b.WriteString("</" + open[i].name + ">")
	}
}

// plain returns text without markup.
func plain(text string) styledText {
	return styledText{text: text, runs: []run{{end: len(text)}}}
}

// isPlain reports whether markdown reads the same without markup, as most short
// answers do. It may return false for some that does.
func isPlain(markdown string) bool {
	if strings.ContainsAny(markdown, "*_`[]<>&#~|\\\t") {
		return false
	}
	for line := range strings.Lines(markdown) {
		switch digits := strings.TrimLeft(line, "0123456789"); {
		case line[0] == ' ' || line[0] == '-' || line[0] == '+' || line[0] == '=':
			return false
		case len(digits) < len(line) && digits != "" && (digits[0] == '.' || digits[0] == ')'):
			return false
		}
	}
	return true
}
