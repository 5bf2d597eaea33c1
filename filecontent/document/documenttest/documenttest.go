// Package documenttest makes documents for tests.
package documenttest

import (
	"bytes"
	"fmt"
	"strings"
)

// PDF returns a PDF with a page for each text.
func PDF(pages ...string) []byte {
	var drawn []string
	for _, text := range pages {
		drawn = append(drawn, fmt.Sprintf("BT /F1 24 Tf 72 700 Td (%s) Tj ET", text))
	}
	return DrawnPDF(drawn...)
}

// DrawnPDF returns a PDF with a page for each list of operators. The font F1 is Helvetica.
// The codes 1 to 4 of F2 are the ligature fi and the Hebrew letters of shalom without its
// vav: shin, lamed and final mem.
func DrawnPDF(pages ...string) []byte {
	objects := []string{
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Letters /Encoding << /Differences [1 /fi /afii57689 /afii57676 /afii57677 /i /n /d] >> >>",
	}
	var kids strings.Builder
	for _, drawn := range pages {
		n := len(objects) + 3
		fmt.Fprintf(&kids, "%d 0 R ", n)
		objects = append(objects,
			fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>", n+1),
			Stream("", drawn))
	}
	return PDFOf(append([]string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids.String(), len(pages)),
	}, objects...)...)
}

// Stream returns an object with data, whose dictionary has further entries.
func Stream(entries, data string) string {
	return fmt.Sprintf("<< /Length %d %s >>\nstream\n%s\nendstream", len(data), entries, data)
}

// PDFOf returns a PDF of objects, numbered from 1. The first one is its catalog.
func PDFOf(objects ...string) []byte {
	var b bytes.Buffer
	var at []int
	b.WriteString("%PDF-1.4\n")
	for _, text := range objects {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), text)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.Bytes()
}
