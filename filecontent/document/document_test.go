package document

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// hoard holds what a process takes that is to be ended for that.
var hoard [][]byte

// TestMain lets the test's own binary be the process that reads a document.
func TestMain(m *testing.M) {
	switch strings.Join(os.Args[1:], " ") {
	case "read":
		os.Exit(Serve(os.Stdin, os.Stdout, os.Stderr))
	case "memory":
		go watch(time.Now().Add(time.Hour))
		for {
			hoard = append(hoard, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "crash":
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// archive returns a zip archive of texts by name.
func archive(t *testing.T, parts map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestSpeed) })
	for name, text := range parts {
		part, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(part, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pdfOf returns a PDF with a page for each text.
func pdfOf(pages ...string) []byte {
	var b bytes.Buffer
	var at []int
	object := func(text string) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), text)
	}
	b.WriteString("%PDF-1.4\n")
	var kids strings.Builder
	for i := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids.String(), len(pages)))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, text := range pages {
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i))
		stream := fmt.Sprintf("BT /F1 24 Tf 72 700 Td (%s) Tj ET", text)
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream))
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.Bytes()
}

func TestTextOfDocuments(t *testing.T) {
	t.Parallel()
	const w = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"`
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"pdf": {pdfOf("The roof leaks.", "The cellar is dry."), "[page 1]\nThe roof leaks.\n\n[page 2]\nThe cellar is dry.\n"},
		"docx": {archive(t, map[string]string{"word/document.xml": `<w:document ` + w + `><w:body><w:p><w:r><w:t>The roof</w:t><w:tab/><w:t>leaks.</w:t></w:r></w:p>
			<w:p><w:r><w:t>Über &amp; out</w:t></w:r></w:p></w:body></w:document>`}), "The roof\tleaks.\nÜber & out"},
		"xlsx": {archive(t, map[string]string{
			"xl/workbook.xml":          `<workbook/>`,
			"xl/sharedStrings.xml":     `<sst><si><t>Roof</t></si><si><r><t>Cel</t></r><r><t>lar</t></r></si></sst>`,
			"xl/worksheets/sheet1.xml": `<worksheet><sheetData><row><c t="s"><v>1</v></c><c><v>42.5</v></c></row><row><c t="inlineStr"><is><t>in line</t></is></c></row></sheetData></worksheet>`,
		}), "[sheet 1]\nCellar\t42.5\t\nin line"},
		"pptx": {archive(t, map[string]string{
			"ppt/presentation.xml":   `<p/>`,
			"ppt/slides/slide10.xml": `<p:sld xmlns:a="a" xmlns:p="p"><a:p><a:r><a:t>Last</a:t></a:r></a:p></p:sld>`,
			"ppt/slides/slide2.xml":  `<p:sld xmlns:a="a" xmlns:p="p"><a:p><a:r><a:t>First</a:t></a:r></a:p></p:sld>`,
		}), "[slide 1]\nFirst\n\n[slide 2]\nLast"},
		"odt": {archive(t, map[string]string{
			"mimetype": "application/vnd.oasis.opendocument.text",
			"content.xml": `<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="t"><office:styles>no</office:styles>` +
				`<office:body><text:h>Roof</text:h><text:p>It<text:s/>leaks.</text:p></office:body></office:document-content>`,
		}), "Roof\nIt leaks."},
	} {
		if got, err := Text(c.data); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// A document that is broken, or made to do harm, is refused in words.
func TestHostileDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	whole := pdfOf("The roof leaks.")
	many := map[string]string{}
	for n := range maxEntries + 1 {
		many[fmt.Sprint(n)] = ""
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":            {nil, "broken"},
		"half a PDF":       {whole[:len(whole)/2], "broken"},
		"PDF without end":  {[]byte("%PDF-1.4\n"), "broken"},
		"PDF of pictures":  {pdfOf(""), "it has no text"},
		"archive":          {archive(t, map[string]string{"a.txt": "text"}), "no document"},
		"many entries":     {archive(t, many), "unfolds into too much"},
		"zip bomb":         {archive(t, map[string]string{"word/document.xml": "<d><!--" + strings.Repeat(" ", maxUnpacked+1)}), "unfolds into too much"},
		"half a docx":      {archive(t, map[string]string{"word/document.xml": "<w:document><w:p"}), "broken"},
		"docx of no words": {archive(t, map[string]string{"word/document.xml": "<w:document/>"}), "it has no text"},
	} {
		text, err := Text(c.data)
		var problem *Problem
		if !errors.As(err, &problem) || !strings.Contains(problem.Words, c.want) || text != "" {
			t.Errorf("%s: %q, %v; want %q", name, text[:min(len(text), 100)], err, c.want)
		}
	}
	for cut := 0; cut < len(whole); cut += 7 { // no cut ends the process
		_, _ = Text(whole[:cut])
		_, _ = Text(append(bytes.Clone(whole[:cut]), whole[min(len(whole), cut+9):]...))
	}
}

// Of a document with more text than is kept, the beginning is kept.
func TestALongDocumentIsCut(t *testing.T) {
	t.Parallel()
	paragraph := "<p><t>" + strings.Repeat("word ", 200) + "</t></p>"
	text, err := Text(archive(t, map[string]string{"word/document.xml": "<d>" + strings.Repeat(paragraph, 2*MaxText/len(paragraph)) + "</d>"}))
	if err != nil || len(text) > MaxText || len(text) < MaxText-2000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// The process that reads a document may crash, or take what it can get: the gateway
// goes on, and says what was wrong.
func TestADocumentIsReadInAProcessOfItsOwn(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for argument, c := range map[string]struct{ text, problem string }{
		"read":   {"[page 1]\nThe roof leaks.\n", ""},
		"crash":  {"", "the document is broken"},
		"memory": {"", "reading it takes too much memory"},
	} {
		text, err := Extractor{Command: []string{self, argument}}.Text(t.Context(), bytes.NewReader(pdfOf("The roof leaks.")))
		var problem *Problem
		if errors.As(err, &problem); text != c.text || (problem == nil) != (c.problem == "") || problem != nil && problem.Words != c.problem {
			t.Errorf("%s: %q, %v", argument, text, err)
		}
	}
	text, err := Extractor{Command: []string{self, "read"}}.Text(t.Context(), strings.NewReader("nothing"))
	var problem *Problem
	if !errors.As(err, &problem) || problem.Words != "the document is broken" {
		t.Errorf("a broken one: %q, %v", text, err)
	}
}
