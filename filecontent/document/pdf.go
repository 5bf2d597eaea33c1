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
	pages, err := pagesOf(opened)
	if err != nil {
		return "", err
	}
	var w writer
	said := false
	for i, page := range pages {
		if w.full {
			break
		}
		text := strings.TrimSpace(textOfPage(page, MaxText-w.Len()))
		w.page("page", i+1)
		w.add(text)
		w.add("\n")
		said = said || text != ""
	}
	if !said {
		return "", &Problem{"it has no text, as where its pages are pictures"}
	}
	return strings.ToValidUTF8(w.String(), "\uFFFD"), nil
}

// textOfPage returns the text of a page, at most so many bytes, "" for one that is broken.
func textOfPage(page pdfPage, room int) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return newPageText(page, room).read(page.page.Key("Contents"))
}
