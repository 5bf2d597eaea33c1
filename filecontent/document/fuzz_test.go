package document

import (
	"archive/zip"
	"bytes"
	"io"
	"testing"
	"unicode/utf8"

	"parley/filecontent/document/documenttest"
)

// checkText checks a text that was read.
func checkText(t *testing.T, text string, err error) {
	t.Helper()
	if err == nil && (text == "" || len(text) > MaxText || !utf8.ValidString(text)) {
		t.Errorf("%d bytes of text, UTF-8: %v", len(text), utf8.ValidString(text))
	}
}

// Documents are read to their end, however broken they are.
func FuzzText(f *testing.F) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	member, err := w.Create("word/document.xml")
	if err == nil {
		_, err = io.WriteString(member, `<w:p><w:t>a text</w:t></w:p>`)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(documenttest.PDF("one", "two"))
	f.Add(documenttest.DrawnPDF("BT /F1 12 Tf 10 10 Td [(a) -300 (b)] TJ T* (c) ' ET q 1 0 0 1 5 5 cm Q"))
	f.Add(documenttest.PDFOf(
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R 2 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /XObject << /A 5 0 R >> >> >>",
		documenttest.Stream("", "/A Do /A Do"),
		documenttest.Stream("/Type /XObject /Subtype /Form /Resources << /XObject << /A 5 0 R >> >>", "/A Do"),
	))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := Text(data)
		checkText(t, text, err)
	})
}

// officeParts are the names of the parts that hold the text of each kind of office document, beside
// which others show what it is.
var officeParts = []struct{ part, beside string }{
	{"word/document.xml", ""}, {"xl/worksheets/sheet1.xml", "xl/workbook.xml"}, {"xl/sharedStrings.xml", "xl/workbook.xml"},
	{"ppt/slides/slide7.xml", "ppt/presentation.xml"}, {"content.xml", "mimetype"},
}

// The parts of office documents are read to their end, whatever their XML says.
func FuzzOffice(f *testing.F) {
	const opened = `<office:body xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0">`
	for kind, seed := range []string{
		`<w:document><w:body><w:p><w:r><w:t>a</w:t><w:tab/><w:br/></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:t>b</w:t></w:p></w:tc></w:tr></w:tbl></w:body></w:document>`,
		`<worksheet><sheetData><row><c t="s"><v>0</v></c><c t="inlineStr"><is><t>a</t></is></c><c><v>1.5</v></c></row></sheetData></worksheet>`,
		`<sst><si><t>a</t></si><si><r><t>b</t></r><r><t>c</t></r></si></sst>`,
		`<p:sld><a:p><a:r><a:t>a</a:t></a:r></a:p></p:sld>`,
		`<office:document-content>` + opened + `<text:p>a<text:s/>b<text:tab/><text:line-break/></text:p></office:body></office:document-content>`,
	} {
		f.Add(byte(kind), []byte(seed), []byte(""))
	}
	f.Add(byte(1), []byte(`<row><c t="s"><v>0</v></c><c t="s"><v>9</v></c></row>`), []byte(`<sst><si><t>shared</t></si></sst>`))
	f.Fuzz(func(t *testing.T, kind byte, part, shared []byte) {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for name, data := range map[string][]byte{officeParts[int(kind)%len(officeParts)].part: part, officeParts[int(kind)%len(officeParts)].beside: nil, "xl/sharedStrings.xml": shared} {
			if name == "" || name == "xl/sharedStrings.xml" && len(data) == 0 {
				continue
			}
			member, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
			if err == nil {
				_, err = member.Write(data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		archive, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		text, err := officeText(archive)
		checkText(t, text, err)
		if limit := (len(part) + 1) * (len(shared) + 16); len(text) > limit {
			t.Errorf("%d and %d bytes became %d", len(part), len(shared), len(text))
		}
	})
}

// A web page becomes Markdown that is not many times as long.
func FuzzWebPage(f *testing.F) {
	f.Add([]byte(`<html><head><title>T</title><meta name="author" content="A"><meta property="article:published_time" content="2024-05-01T00:00:00Z"></head><body><article><h1>T</h1><p>` +
		`A sentence that goes on, and on, with <b>bold</b>, <a href="/x">a link</a> and <img alt="a picture">.</p><ul><li>a<ol><li>b</ol></ul><table><tr><th>x<td colspan=3>y</table><pre><code class="language-go">x</code></pre></article>`))
	f.Add([]byte(`<p hidden>no</p><div style="display: none">no</div><template>no</template><svg><title>no</title></svg><noscript><p>yes</noscript>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		page, err := ReadWebPage(data, "https://example.org/a/b?c=d")
		if err != nil {
			return
		}
		for _, text := range []string{page.Title, page.Author, page.Published, page.Text} {
			if !utf8.ValidString(text) {
				t.Errorf("%q is no UTF-8", text)
			}
		}
		if len(page.Text) > MaxWebPage || len(page.Text) > 100*len(data)+1<<10 {
			t.Errorf("%d bytes became %d", len(data), len(page.Text))
		}
	})
}
