package pages

import (
	"bytes"
	"html/template"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"parley/markup"
)

// maxMarkdown is how many bytes of a text are rendered as markdown. A longer one
// is shown as it is, since parsing would take long.
const maxMarkdown = 256 << 10

// markdown is made when the first text is shown. Raw HTML, and every address
// but of http, https and mailto, is shown as text.
var markdown = sync.OnceValue(func() reading {
	md := goldmark.New(
		goldmark.WithExtensions(
			extension.Strikethrough, extension.TaskList, extension.Linkify, markup.Math{},
			// Alignment by a style attribute would need a weaker content security policy.
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
		),
		goldmark.WithRendererOptions(
			html.WithHardWraps(), // as people and models mean the lines of a chat
			renderer.WithNodeRenderers(util.Prioritized(safeRenderer{}, 100)),
		),
	)
	return reading{markup.NewParser(md), md.Renderer()}
})

// reading is a parser of markdown with its renderer.
type reading struct {
	parser   *markup.Parser
	renderer renderer.Renderer
}

// Markdown returns what a model or a person wrote as HTML. No input can make it
// contain a script.
func Markdown(source string) template.HTML {
	return template.HTML(strings.Join(Blocks(source), ""))
}

// verbatim returns a text that is not read as markdown.
func verbatim(source string) []string {
	return []string{`<div class="verbatim">` + template.HTMLEscapeString(source) + `</div>`}
}

// Blocks returns Markdown in pieces, of one HTML element each. While a text grows
// at its end, its first pieces stay the same.
func Blocks(source string) []string {
	if strings.TrimSpace(source) == "" {
		return nil
	}
	source = strings.ToValidUTF8(source, "\uFFFD")
	if thought, answer, open := SplitThought(source); thought != "" {
		return append([]string{thoughtBlock(thought, open)}, Blocks(answer)...)
	}
	if len(source) > maxMarkdown {
		return verbatim(source)
	}
	bytesOf := []byte(source)
	document, err := markdown().parser.Parse(bytesOf)
	if err != nil {
		return verbatim(source)
	}
	var blocks []string
	var out bytes.Buffer
	for node := document.FirstChild(); node != nil; node = node.NextSibling() {
		out.Reset()
		if err := markdown().renderer.Render(&out, bytesOf, node); err != nil {
			continue // writing to memory does not fail
		}
		if out.Len() > 0 {
			blocks = append(blocks, out.String())
		}
	}
	return blocks
}
