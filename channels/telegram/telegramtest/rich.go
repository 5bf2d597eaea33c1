package telegramtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Limits of rich messages: https://core.telegram.org/bots/api#rich-message-limits
const (
	maxRichText    = 32768 // characters
	maxRichBlocks  = 500
	maxRichDepth   = 16
	maxRichColumns = 20
)

// richContent is an InputRichMessage of blocks, the only form that this server takes:
// https://core.telegram.org/bots/api#inputrichmessage
type richContent struct {
	Blocks []richBlock `json:"blocks"`
	IsRTL  bool        `json:"is_rtl"`
}

type richBlock struct {
	Type       string          `json:"type"`
	Text       json.RawMessage `json:"text"`
	Size       int             `json:"size"`
	Language   string          `json:"language"`
	Expression string          `json:"expression"`
	Blocks     []richBlock     `json:"blocks"`
	Items      []struct {
		Blocks  []richBlock `json:"blocks"`
		Box     bool        `json:"has_checkbox"`
		Checked bool        `json:"is_checked"`
		Value   *int        `json:"value"`
		Type    string      `json:"type"`
	} `json:"items"`
	Cells [][]struct {
		Text   json.RawMessage `json:"text"`
		Header bool            `json:"is_header"`
		Align  string          `json:"align"`
		VAlign string          `json:"valign"`
	} `json:"cells"`
	Bordered bool `json:"is_bordered"`
}

// richReader reads a rich message, and what is wrong with it.
type richReader struct {
	text   strings.Builder
	blocks int
	wrong  string // the first fault; "" = none
}

func (s *Server) sendRichMessage(w http.ResponseWriter, p map[string]string) {
	m, v := parseRich(p)
	s.send(w, p, m, v)
}

// parseRich reads a message of blocks. Its Text is that of all blocks.
func parseRich(p map[string]string) (Message, Verdict) {
	m := Message{Rich: p["rich_message"], Chat: integer(p, "chat_id", 0), Topic: integer(p, "message_thread_id", 0)}
	decoder := json.NewDecoder(strings.NewReader(m.Rich))
	decoder.DisallowUnknownFields()
	var content richContent
	if err := decoder.Decode(&content); err != nil {
		return m, bad("can't parse rich_message: " + err.Error())
	}
	var r richReader
	r.list(content.Blocks, 1)
	m.Text = strings.TrimSpace(r.text.String())
	switch {
	case r.wrong != "":
		return m, bad(r.wrong)
	case m.Text == "" && !bytes.Contains([]byte(m.Rich), []byte("divider")):
		return m, bad("rich message is empty")
	case utf8.RuneCountInString(m.Text) > maxRichText || r.blocks > maxRichBlocks:
		return m, bad("rich message is too long")
	}
	return m, Verdict{}
}

func (r *richReader) refuse(format string, args ...any) {
	if r.wrong == "" {
		r.wrong = fmt.Sprintf(format, args...)
	}
}

func (r *richReader) list(blocks []richBlock, depth int) {
	if depth > maxRichDepth {
		r.refuse("blocks are nested too deep")
		return
	}
	if len(blocks) == 0 {
		r.refuse("a list of blocks is empty")
	}
	for _, b := range blocks {
		r.blocks++
		r.block(b, depth)
	}
}

func (r *richReader) block(b richBlock, depth int) {
	switch b.Type {
	case "paragraph", "pre":
		r.line(b.Text, depth)
	case "heading":
		if b.Size < 1 || b.Size > 6 {
			r.refuse("a heading has the size %d", b.Size)
		}
		r.line(b.Text, depth)
	case "mathematical_expression":
		if b.Expression == "" {
			r.refuse("an expression is empty")
		}
		r.text.WriteString(b.Expression + "\n")
	case "divider":
	case "blockquote":
		r.list(b.Blocks, depth+1)
	case "list":
		for _, item := range b.Items {
			r.blocks++
			if (item.Value == nil) != (item.Type == "") {
				r.refuse("an item has a value or a type alone")
			}
			r.list(item.Blocks, depth+1)
		}
	case "table":
		r.table(b)
	default:
		r.refuse("this server has no block %q", b.Type)
	}
}

func (r *richReader) table(b richBlock) {
	for _, row := range b.Cells {
		r.blocks++
		if len(row) > maxRichColumns {
			r.refuse("a table has %d columns", len(row))
		}
		for _, cell := range row {
			if cell.Align == "" || cell.VAlign == "" {
				r.refuse("a cell has no alignment")
			}
			if len(cell.Text) > 0 {
				r.richText(cell.Text, 2)
			}
			r.text.WriteByte('\t')
		}
		r.text.WriteByte('\n')
	}
}

func (r *richReader) line(text json.RawMessage, depth int) {
	r.richText(text, depth+1)
	r.text.WriteByte('\n')
}

// richText reads a text: a string, a list of texts, or an object around a text.
func (r *richReader) richText(raw json.RawMessage, depth int) {
	var text string
	var list []json.RawMessage
	var look struct {
		Type, URL, Expression string
		Text                  json.RawMessage
	}
	switch {
	case depth > maxRichDepth:
		r.refuse("texts are nested too deep")
	case json.Unmarshal(raw, &text) == nil:
		if text == "" {
			r.refuse("a text is empty")
		}
		r.text.WriteString(text)
	case json.Unmarshal(raw, &list) == nil:
		for _, one := range list {
			r.richText(one, depth)
		}
	case json.Unmarshal(raw, &look) != nil:
		r.refuse("a text is neither a string, a list nor an object: %s", raw)
	default:
		switch look.Type {
		case "bold", "italic", "underline", "strikethrough", "code":
			r.richText(look.Text, depth+1)
		case "url":
			if look.URL == "" {
				r.refuse("a link has no url")
			}
			r.richText(look.Text, depth+1)
		case "mathematical_expression":
			r.text.WriteString(look.Expression)
		default:
			r.refuse("this server has no text %q", look.Type)
		}
	}
}
