// Package document reads the text of PDF and office documents, and of web pages. They may
// be broken or made to do harm: a caller reads them in a process of its own, see Extractor.
package document

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
)

// MaxText is the most bytes of text that are read of a document.
const MaxText = 8 << 20

// Problem says why a document can't be read, in words for the user and the model.
type Problem struct{ Words string }

func (p *Problem) Error() string { return p.Words }

// broken says of a document that its bytes make no sense.
var broken = &Problem{"the document is broken"}

// Text returns the text of a document, with its parts on lines of their own, at most
// MaxText bytes. The error is a *Problem. It may take long, and much memory.
func Text(data []byte) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = "", broken
		}
	}()
	if bytes.HasPrefix(data, []byte("%PDF-")) {
		return pdfText(data)
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", broken
	}
	return officeText(archive)
}

// writer collects a text up to MaxText.
type writer struct {
	strings.Builder
	full bool
}

// add appends a text, or the part of it that there is room for. It returns false when
// there is no more room.
func (w *writer) add(text string) bool {
	if room := MaxText - w.Len(); len(text) > room {
		text, w.full = strings.ToValidUTF8(text[:room], ""), true
	}
	w.WriteString(text)
	return !w.full
}

// page begins a part of the document with a heading.
func (w *writer) page(kind string, n int) {
	if w.Len() > 0 {
		w.add("\n")
	}
	w.add(fmt.Sprintf("[%s %d]\n", kind, n))
}
