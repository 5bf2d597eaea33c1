package telegram

import (
	"encoding/json"
	"strings"

	"parley/plaintext"
)

// maxRichDepth is how deep blocks and texts of a rich message may be nested; what
// is deeper is left out.
const maxRichDepth = 16

// richMessage is a message of headings, lists, tables and the like:
// https://core.telegram.org/bots/api#richmessage
type richMessage struct {
	Blocks []richBlock `json:"blocks"`
}

// richBlock is any of the blocks, by their type.
type richBlock struct {
	Type       string          `json:"type"`
	Text       json.RawMessage `json:"text"` // see richText
	Size       int             `json:"size"` // level of a heading, from 1
	Language   string          `json:"language"`
	Expression string          `json:"expression"`
	Blocks     []richBlock     `json:"blocks"`
	Summary    json.RawMessage `json:"summary"`
	Credit     json.RawMessage `json:"credit"`
	Items      []struct {
		Label   string      `json:"label"`
		Blocks  []richBlock `json:"blocks"`
		Box     bool        `json:"has_checkbox"`
		Checked bool        `json:"is_checked"`
	} `json:"items"`
	Cells [][]struct {
		Text json.RawMessage `json:"text"`
	} `json:"cells"`
	Caption  json.RawMessage `json:"caption"` // a text, or an object that has one
	Location *location       `json:"location"`

	Photo     []file `json:"photo"`
	Video     *file  `json:"video"`
	Animation *file  `json:"animation"`
	Audio     *file  `json:"audio"`
	VoiceNote *file  `json:"voice_note"`
	Document  *file  `json:"document"`
}

// markdown returns the message as Markdown.
func (r *richMessage) markdown() string {
	if r == nil {
		return ""
	}
	return blocksText(r.Blocks, 0)
}

// files returns the pictures and other files in the blocks.
func (r *richMessage) files(message int64) (list []named) {
	if r == nil {
		return nil
	}
	var walk func(blocks []richBlock, depth int)
	walk = func(blocks []richBlock, depth int) {
		if depth > maxRichDepth {
			return
		}
		for _, b := range blocks {
			c := content{Photo: b.Photo, Video: b.Video, Animation: b.Animation, Audio: b.Audio, Voice: b.VoiceNote, Document: b.Document}
			list = append(list, c.files(message)...)
			walk(b.Blocks, depth+1)
			for _, item := range b.Items {
				walk(item.Blocks, depth+1)
			}
		}
	}
	walk(r.Blocks, 0)
	return list
}

func blocksText(blocks []richBlock, depth int) string {
	if depth > maxRichDepth {
		return ""
	}
	var parts []string
	for _, b := range blocks {
		if text := strings.Trim(b.markdown(depth), "\n"); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n\n")
}

func (b richBlock) markdown(depth int) string {
	text := richText(b.Text, depth)
	switch b.Type {
	case "heading":
		return strings.Repeat("#", min(max(b.Size, 1), 6)) + " " + text
	case "pre":
		return codeBlock(plainRich(b.Text, depth), language([]byte(b.Language)))
	case "divider":
		return "---"
	case "mathematical_expression":
		return "$$" + b.Expression + "$$"
	case "list":
		return b.list(depth)
	case "table":
		return b.table(depth)
	case "blockquote", "expandable_blockquote", "pullquote":
		return "> " + strings.ReplaceAll(joined(text, blocksText(b.Blocks, depth+1), creditOf(b.Credit, depth)), "\n", "\n> ")
	case "details":
		return joined(richText(b.Summary, depth), blocksText(b.Blocks, depth+1))
	case "map":
		if b.Location != nil {
			return joined("[map "+b.Location.String()+"]", richText(b.Caption, depth))
		}
	case "photo", "video", "animation", "audio", "voice_note", "document":
		return joined("["+strings.ReplaceAll(b.Type, "_", " ")+"]", richText(b.Caption, depth))
	}
	return joined(text, blocksText(b.Blocks, depth+1), richText(b.Caption, depth))
}

func (b richBlock) list(depth int) string {
	var lines []string
	for _, item := range b.Items {
		mark := plaintext.OneLine(item.Label)
		if mark == "" || mark == "•" {
			mark = "-"
		}
		if item.Box {
			mark = "- [ ]"
		}
		if item.Checked {
			mark = "- [x]"
		}
		text := strings.ReplaceAll(blocksText(item.Blocks, depth+1), "\n", "\n  ")
		lines = append(lines, mark+" "+text)
	}
	return strings.Join(lines, "\n")
}

func (b richBlock) table(depth int) string {
	var rows []string
	for i, row := range b.Cells {
		var cells []string
		for _, cell := range row {
			cells = append(cells, strings.ReplaceAll(plaintext.OneLine(richText(cell.Text, depth)), "|", `\|`))
		}
		rows = append(rows, "| "+strings.Join(cells, " | ")+" |")
		if i == 0 {
			rows = append(rows, "|"+strings.Repeat(" --- |", len(row)))
		}
	}
	return joined(richText(b.Caption, depth), strings.Join(rows, "\n"))
}

// creditOf returns who said what a block quotes.
func creditOf(raw json.RawMessage, depth int) string {
	if text := richText(raw, depth); text != "" {
		return "— " + text
	}
	return ""
}

// joined returns the texts that are not empty, a line each.
func joined(texts ...string) string {
	var lines []string
	for _, text := range texts {
		if text != "" {
			lines = append(lines, text)
		}
	}
	return strings.Join(lines, "\n")
}

// richText returns a text as Markdown: a string, a list of texts, or an object that
// says how a text looks.
func richText(raw json.RawMessage, depth int) string { return readRich(raw, depth, richMark) }

// plainRich returns a text without marks.
func plainRich(raw json.RawMessage, depth int) string {
	return readRich(raw, depth, func(_ richObject, text string) string { return text })
}

// readRich returns a text, with what mark makes of each stretch that has a look.
func readRich(raw json.RawMessage, depth int, mark func(o richObject, text string) string) string {
	if len(raw) == 0 || depth > maxRichDepth {
		return ""
	}
	switch raw[0] {
	case '"':
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return text
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return ""
		}
		var b strings.Builder
		for _, one := range list {
			b.WriteString(readRich(one, depth+1, mark))
		}
		return b.String()
	case '{':
		var o richObject
		if json.Unmarshal(raw, &o) != nil {
			return ""
		}
		if o.Expression != "" {
			return "$" + o.Expression + "$"
		}
		if o.Alternative != "" {
			return o.Alternative
		}
		return mark(o, readRich(o.Text, depth+1, mark))
	}
	return ""
}

// richObject is a text with a look.
type richObject struct {
	Type        string          `json:"type"`
	Text        json.RawMessage `json:"text"`
	URL         string          `json:"url"`
	Expression  string          `json:"expression"`
	Alternative string          `json:"alternative_text"`
}

// richMark puts the marks of Markdown around a text.
func richMark(o richObject, text string) string {
	switch o.Type {
	case "bold":
		return around(text, "**", "**")
	case "italic":
		return around(text, "*", "*")
	case "strikethrough":
		return around(text, "~~", "~~")
	case "code":
		return codeSpan(text)
	case "url":
		if o.URL != "" && o.URL != text && !strings.ContainsAny(o.URL, " \n<>") {
			return around(text, "[", "]("+o.URL+")")
		}
	}
	return text
}
