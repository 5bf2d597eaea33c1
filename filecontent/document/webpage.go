package document

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"github.com/go-shiori/go-readability"
	"golang.org/x/net/html"
)

// MaxWebPage is the most bytes of Markdown that are made of a web page.
const MaxWebPage = 1 << 20

// minArticle is how many characters an article has at least. What is found of a page that
// has less is a part of it, such as a notice about cookies.
const minArticle = 200

// WebPage is what a web page says.
type WebPage struct {
	Title     string `json:"title,omitempty"`
	Author    string `json:"author,omitempty"`
	Published string `json:"published,omitempty"` // a date
	Text      string `json:"text"`                // Markdown
	Cut       bool   `json:"cut,omitempty"`       // the text goes on
}

// ReadWebPage reads HTML in UTF-8 that was at an address: the article of a page that has
// one, without menus and notices, and else the whole page. The error is a *Problem. It may
// take long, and much memory.
func ReadWebPage(data []byte, address string) (page WebPage, err error) {
	defer func() {
		if p := recover(); p != nil {
			page, err = WebPage{}, brokenPage
		}
	}()
	at, err := url.Parse(address)
	if err != nil {
		return page, brokenPage
	}
	shown, err := html.Parse(bytes.NewReader(data))
	if err != nil {
		return page, brokenPage
	}
	removeHidden(shown)
	parser := readability.NewParser()
	article, err := parser.ParseDocument(shown, at)
	if err == nil {
		page.Title, page.Author = article.Title, article.Byline
		if article.PublishedTime != nil {
			page.Published = article.PublishedTime.Format("2006-01-02")
		}
		if article.Node != nil && article.Length >= minArticle && parser.CheckDocument(shown) {
			shown = article.Node
		}
	}
	text, err := newConverter().ConvertNode(shown, converter.WithDomain(address))
	if err != nil {
		return WebPage{}, brokenPage
	}
	if len(text) > MaxWebPage {
		text, page.Cut = text[:MaxWebPage], true
	}
	if page.Text = strings.ToValidUTF8(string(bytes.TrimSpace(text)), ""); page.Text == "" {
		return WebPage{}, &Problem{"the page has no text; it may be one that a script fills in a browser"}
	}
	return page, nil
}

var brokenPage = &Problem{"the page is broken"}

// newConverter returns what makes Markdown of HTML. Of pictures it leaves their description.
func newConverter() *converter.Converter {
	c := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), strikethrough.NewStrikethroughPlugin(), table.NewTablePlugin()))
	c.Register.RendererFor("img", converter.TagTypeInline, func(_ converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
		if alt := strings.Join(strings.Fields(attribute(n, "alt")), " "); alt != "" {
			_, _ = w.WriteString("[picture: " + alt + "]") // it writes to memory
		}
		return converter.RenderSuccess
	}, converter.PriorityEarly)
	for _, tag := range []string{"button", "select", "svg", "template", "dialog", "video", "audio", "canvas"} {
		c.Register.TagType(tag, converter.TagTypeRemove, converter.PriorityEarly)
	}
	return c
}

// removeHidden removes what a person does not see on a page, where the page says so
// plainly: it may be meant for programs.
func removeHidden(n *html.Node) {
	for child := n.FirstChild; child != nil; {
		next := child.NextSibling
		if child.Type == html.ElementNode && isHidden(child) {
			n.RemoveChild(child)
		} else {
			removeHidden(child)
		}
		child = next
	}
}

func isHidden(n *html.Node) bool {
	for _, a := range n.Attr {
		style := strings.ReplaceAll(strings.ToLower(a.Val), " ", "")
		if a.Key == "hidden" || a.Key == "style" && (strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")) {
			return true
		}
	}
	return false
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// ServeWebPage does for a web page what Serve does for a document. What it writes to out is
// a WebPage as JSON.
func ServeWebPage(in io.Reader, out, problems io.Writer, address string) int {
	return serve(in, out, problems, func(data []byte) (string, error) {
		page, err := ReadWebPage(data, address)
		if err != nil {
			return "", err
		}
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(page)
		return b.String(), err
	})
}
