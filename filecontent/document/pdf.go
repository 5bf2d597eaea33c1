package document

import (
	"bytes"
	"errors"
	"strings"

	"github.com/ledongthuc/pdf"
)

// maxPages is the most pages of a PDF that are read.
const maxPages = 5000

func pdfText(data []byte) (string, error) {
	opened, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, pdf.ErrInvalidPassword) {
		return "", &Problem{"the document is locked with a password"}
	}
	if err != nil {
		return "", broken
	}
	pages := opened.NumPage()
	if pages <= 0 {
		return "", broken
	}
	var w writer
	fonts, said := map[string]*pdf.Font{}, false
	for n := 1; n <= min(pages, maxPages) && !w.full; n++ {
		text := strings.TrimSpace(pageText(opened, n, fonts))
		w.page("page", n)
		w.add(text)
		w.add("\n")
		said = said || text != ""
	}
	if !said {
		return "", &Problem{"it has no text, as where its pages are pictures"}
	}
	return strings.ToValidUTF8(w.String(), "\uFFFD"), nil
}

// pageText returns the text of a page, "" for one that is broken.
func pageText(opened *pdf.Reader, n int, fonts map[string]*pdf.Font) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	page := opened.Page(n)
	if page.V.IsNull() {
		return ""
	}
	rows, err := page.GetTextByRow()
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for _, word := range row.Content {
			line.WriteString(word.S)
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	if strings.TrimSpace(b.String()) != "" {
		return b.String()
	}
	text, err = page.GetPlainText(fonts)
	if err != nil {
		return ""
	}
	return text
}
