package telegram

import (
	"cmp"
	"slices"
	"strings"
)

// maxEntities is how many entities of a text are read: more than Telegram keeps of
// one (https://core.telegram.org/api/entities).
const maxEntities = 300

// span is a marked stretch of a text in bytes, with the stretches inside it.
type span struct {
	from, to int
	entity   entity
	inner    []span
}

// markdownOf returns the text from byte from on, with its entities as Markdown:
// bold and italic text, code with its language, quotes, and the addresses behind
// words. What Markdown has no form for stays plain.
func markdownOf(text string, entities []entity, from int) string {
	spans := spansOf(text, entities, from)
	if len(spans) == 0 {
		return text[from:]
	}
	var b strings.Builder
	writeSpans(&b, text, from, len(text), spans)
	return b.String()
}

// spansOf returns the entities behind byte from that Markdown has a form for,
// nested as they stand. It drops those that overlap, which Telegram never sends.
func spansOf(text string, entities []entity, from int) []span {
	var flat []span
	for _, e := range entities[:min(len(entities), maxEntities)] {
		if e.isMarkup() && e.Length > 0 {
			flat = append(flat, span{from: e.Offset, to: e.Offset + e.Length, entity: e})
		}
	}
	flat = inBytes(text, flat)
	flat = slices.DeleteFunc(flat, func(s span) bool { return s.from < from || s.to <= s.from })
	slices.SortStableFunc(flat, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	spans, _ := nest(flat, len(text))
	return spans
}

// isMarkup reports whether Markdown has a form for the entity.
func (e entity) isMarkup() bool {
	switch e.Type {
	case "bold", "italic", "strikethrough", "code", "pre", "blockquote", "expandable_blockquote":
		return true
	case "text_link":
		return e.URL != "" && !strings.ContainsAny(e.URL, " \n<>")
	}
	return false
}

// inBytes turns offsets in UTF-16 code units into bytes. A span that does not fit
// the text becomes empty.
func inBytes(text string, spans []span) []span {
	var ends []*int
	for i := range spans {
		ends = append(ends, &spans[i].from, &spans[i].to)
	}
	slices.SortFunc(ends, func(a, b *int) int { return cmp.Compare(*a, *b) })
	units, next := 0, 0
	settle := func(at int) {
		for next < len(ends) && *ends[next] <= units {
			if *ends[next] == units {
				*ends[next] = at
			} else {
				*ends[next] = -1 // before the text, or within a pair
			}
			next++
		}
	}
	for i, r := range text {
		if settle(i); next == len(ends) {
			return spans
		}
		if units++; r > 0xFFFF {
			units++
		}
	}
	settle(len(text))
	for ; next < len(ends); next++ {
		*ends[next] = -1
	}
	return spans
}

// nest puts spans, ordered by their beginnings, into those that enclose them, up
// to byte end. It returns the ones that are left behind end.
func nest(flat []span, end int) (spans, rest []span) {
	for len(flat) > 0 && flat[0].from < end {
		s := flat[0]
		if flat = flat[1:]; s.to > end {
			continue
		}
		s.inner, flat = nest(flat, s.to)
		spans = append(spans, s)
	}
	return spans, flat
}

// writeSpans writes the text from byte from to byte to, with the spans in it.
func writeSpans(b *strings.Builder, text string, from, to int, spans []span) {
	for _, s := range spans {
		b.WriteString(text[from:s.from])
		writeSpan(b, text, s)
		from = s.to
	}
	b.WriteString(text[from:to])
}

func writeSpan(b *strings.Builder, text string, s span) {
	raw := text[s.from:s.to]
	switch s.entity.Type {
	case "code":
		b.WriteString(codeSpan(raw))
		return
	case "pre":
		b.WriteString(onOwnLines(text, s, codeBlock(raw, language([]byte(s.entity.Language)))))
		return
	}
	var inner strings.Builder
	writeSpans(&inner, text, s.from, s.to, s.inner)
	switch s.entity.Type {
	case "bold":
		b.WriteString(around(inner.String(), "**", "**"))
	case "italic":
		b.WriteString(around(inner.String(), "*", "*"))
	case "strikethrough":
		b.WriteString(around(inner.String(), "~~", "~~"))
	case "text_link":
		b.WriteString(around(inner.String(), "[", "]("+s.entity.URL+")"))
	default:
		b.WriteString(onOwnLines(text, s, "> "+strings.ReplaceAll(strings.Trim(inner.String(), "\n"), "\n", "\n> ")))
	}
}

// around puts marks around a text, inside the white space at its ends.
func around(text, before, after string) string {
	core := strings.TrimSpace(text)
	if core == "" {
		return text
	}
	i := strings.Index(text, core)
	return text[:i] + before + core + after + text[i+len(core):]
}

// codeSpan returns code between more backticks than it holds in a row.
func codeSpan(code string) string {
	marks := strings.Repeat("`", longestTicks(code)+1)
	if strings.HasPrefix(code, "`") || strings.HasSuffix(code, "`") {
		code = " " + code + " "
	}
	return marks + code + marks
}

func codeBlock(code, language string) string {
	marks := strings.Repeat("`", max(3, longestTicks(code)+1))
	return marks + language + "\n" + strings.TrimSuffix(code, "\n") + "\n" + marks
}

// longestTicks returns the length of the longest row of backticks.
func longestTicks(text string) (longest int) {
	row := 0
	for i := range len(text) {
		if row++; text[i] != '`' {
			row = 0
		}
		longest = max(longest, row)
	}
	return longest
}

// onOwnLines returns the Markdown of a span that needs lines of its own.
func onOwnLines(text string, s span, markdown string) string {
	if s.from > 0 && text[s.from-1] != '\n' {
		markdown = "\n" + markdown
	}
	if s.to < len(text) && (text[s.to] != '\n' || text[s.to-1] == '\n') {
		markdown += "\n"
	}
	return markdown
}
