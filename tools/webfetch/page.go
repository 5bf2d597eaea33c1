package webfetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"parley/conversation/media"
	"parley/filecontent"
	"parley/filecontent/document"
	"parley/plaintext"
)

// page is what was read at a URL.
type page struct {
	url       *url.URL // the URL at which redirects have ended
	mediaType string
	charset   string // encoding in which a text was read, or how it was recognised; "" if the page is no text
	title     string
	author    string
	published string
	text      string
	cut       bool // the page has more text than text holds
	picture   []byte
}

// read makes a page of an answer.
func (f *Fetcher) read(ctx context.Context, answer response) (page, error) {
	p, err := f.readWhole(ctx, answer)
	if len(p.text) > document.MaxWebPage {
		p.text, p.cut = p.text[:document.MaxWebPage], true
	}
	p.text = plaintext.Clean(p.text)
	return p, err
}

func (f *Fetcher) readWhole(ctx context.Context, answer response) (page, error) {
	p := page{url: answer.url, cut: answer.cut}
	declared := answer.header.Get("Content-Type")
	var err error
	if p.mediaType, _, err = mime.ParseMediaType(declared); err != nil {
		declared = http.DetectContentType(answer.body)
		p.mediaType, _, _ = mime.ParseMediaType(declared)
	}
	switch {
	case len(bytes.TrimSpace(answer.body)) == 0:
		return p, errors.New("the page is empty")
	case media.IsImageType(http.DetectContentType(answer.body)):
		if answer.cut {
			return p, fmt.Errorf("the picture is larger than %d MiB", f.config.MaxSize)
		}
		p.mediaType, p.picture = http.DetectContentType(answer.body), answer.body
		return p, nil
	case bytes.HasPrefix(answer.body, []byte("%PDF-")):
		p.mediaType = "application/pdf"
		return f.document(ctx, p, answer)
	case strings.Contains(p.mediaType, "officedocument") || strings.Contains(p.mediaType, "opendocument"):
		return f.document(ctx, p, answer)
	case !isText(p.mediaType):
		return p, fmt.Errorf("it is of the type %s, and only web pages, texts, pictures, PDF and office documents are read", plaintext.ShortLine(p.mediaType, 100))
	}
	text, err := decode(&p, answer.body, declared)
	if err != nil {
		return p, err
	}
	if p.mediaType == "text/html" || p.mediaType == "application/xhtml+xml" {
		return f.webPage(ctx, p, text)
	}
	p.text = text
	return p, nil
}

// isText reports whether a media type is one of texts, JSON and XML among them.
func isText(mediaType string) bool {
	return strings.HasPrefix(mediaType, "text/") || strings.HasSuffix(mediaType, "+json") || strings.HasSuffix(mediaType, "+xml") ||
		slices.Contains([]string{
			"application/json", "application/xml", "application/javascript", "application/ecmascript", "application/x-ndjson", "application/jsonl",
			"application/yaml", "application/x-yaml", "application/toml", "application/x-sh", "application/sql", "application/x-tex",
		}, mediaType)
}

var errUnreadable = errors.New("its characters can't be read")

// decode returns a body in UTF-8. Its encoding is the one that the server or the page names,
// unless the bytes show that it is another one.
func decode(p *page, body []byte, declared string) (string, error) {
	from, name, sure := charset.DetermineEncoding(body, declared)
	if isUTF8(body) && (!sure || name == "utf-8" || !isASCII(body)) {
		p.charset = "utf-8"
		return withoutBOM(body), nil
	}
	p.charset = name
	if name == "replacement" { // for encodings that are not decoded, as they have hidden scripts from filters
		return "", errUnreadable
	}
	if !sure && name == "windows-1252" || name == "utf-8" { // which is said of what nothing is known of, or wrong
		from, p.charset = filecontent.EncodingOf(body[:min(len(body), 64<<10)]), "recognised by its characters"
	}
	if from == nil {
		return "", errors.New("it is no text")
	}
	text, err := from.NewDecoder().Bytes(body)
	if err != nil {
		return "", errUnreadable
	}
	return withoutBOM(text), nil
}

// withoutBOM returns a text without a byte order mark at its beginning.
func withoutBOM(text []byte) string {
	return strings.ToValidUTF8(strings.TrimPrefix(string(text), "\uFEFF"), "")
}

func isASCII(body []byte) bool {
	return !slices.ContainsFunc(body, func(b byte) bool { return b >= utf8.RuneSelf })
}

// isUTF8 reports whether a body is UTF-8. Its last character may be cut off.
func isUTF8(body []byte) bool {
	for range utf8.UTFMax {
		if utf8.Valid(body) {
			return bytes.IndexByte(body, 0) < 0
		}
		body = body[:max(len(body)-1, 0)]
	}
	return false
}

// webPage reads HTML, in a process of its own.
func (f *Fetcher) webPage(ctx context.Context, p page, html string) (page, error) {
	if err := f.reading.Acquire(ctx, 1); err != nil {
		return p, context.Cause(ctx)
	}
	defer f.reading.Release(1)
	read, err := f.documents.WebPage(ctx, strings.NewReader(html), p.url.String())
	if err != nil {
		return p, readingError(ctx, err)
	}
	p.title, p.author, p.published, p.text = read.Title, read.Author, read.Published, read.Text
	p.cut = p.cut || read.Cut
	return p, nil
}

// document reads a PDF or office document, in a process of its own.
func (f *Fetcher) document(ctx context.Context, p page, answer response) (_ page, err error) {
	if answer.cut {
		return p, fmt.Errorf("the document is larger than %d MiB", f.config.MaxSize)
	}
	if err := f.reading.Acquire(ctx, 1); err != nil {
		return p, context.Cause(ctx)
	}
	defer f.reading.Release(1)
	if p.text, err = f.documents.Text(ctx, bytes.NewReader(answer.body)); err != nil {
		return p, readingError(ctx, err)
	}
	return p, nil
}

func readingError(ctx context.Context, err error) error {
	var problem *document.Problem
	switch {
	case errors.As(err, &problem):
		return problem
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return errors.New("the page can't be read now")
}
