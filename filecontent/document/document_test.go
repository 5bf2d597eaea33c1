package document

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"parley/filecontent/document/documenttest"
)

// allocated keeps the memory of a process that allocates too much.
var allocated [][]byte

// TestMain makes the test binary also the process that reads documents.
func TestMain(m *testing.M) {
	if address, isPage := strings.CutPrefix(os.Args[len(os.Args)-1], WebPageFlag+"="); isPage {
		os.Exit(ServeWebPage(os.Stdin, os.Stdout, os.Stderr, address))
	}
	if peak, isMeasured := strings.CutPrefix(os.Args[len(os.Args)-1], "measure="); isMeasured {
		code := Serve(os.Stdin, os.Stdout, os.Stderr)
		status, err := os.ReadFile("/proc/self/status")
		if err != nil || os.WriteFile(peak, status, 0o600) != nil {
			code = 9
		}
		os.Exit(code)
	}
	switch strings.Join(os.Args[1:], " ") {
	case "read":
		os.Exit(Serve(os.Stdin, os.Stdout, os.Stderr))
	case "memory":
		go watch(time.Now().Add(time.Hour))
		for {
			allocated = append(allocated, bytes.Repeat([]byte{1}, 1<<20))
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
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if text == "" {
			header.Method = zip.Store // compressing many files would take most of the test's time
		}
		part, err := w.CreateHeader(header)
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

func TestTextOfDocuments(t *testing.T) {
	t.Parallel()
	const w = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"`
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"pdf": {documenttest.PDF("The roof leaks.", "The cellar is dry."), "[page 1]\nThe roof leaks.\n\n[page 2]\nThe cellar is dry.\n"},
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

// The text of a page has the lines that a person sees, whichever operators draw them, with spaces
// between words that are drawn separately.
func TestLinesOfAPDF(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ drawn, want string }{
		"T*":               {"BT /F1 12 Tf 14 TL 72 700 Td (The roof) Tj T* (leaks.) Tj T* (It rains.) Tj ET", "The roof\nleaks.\nIt rains."},
		"quotes":           {"BT /F1 12 Tf 14 TL 72 700 Td (The roof) Tj (leaks.) ' 1 2 (It rains.) \" ET", "The roof\nleaks.\nIt rains."},
		"Td":               {"BT /F1 12 Tf 72 700 Td (The roof) Tj 0 -14 Td (leaks.) Tj ET", "The roof\nleaks."},
		"TD":               {"BT /F1 12 Tf 72 700 Td (The roof) Tj 0 -14 TD (leaks.) Tj T* (It rains.) Tj ET", "The roof\nleaks.\nIt rains."},
		"Tm":               {"BT /F1 12 Tf 1 0 0 1 72 700 Tm (The roof) Tj 1 0 0 1 72 686 Tm (leaks.) Tj ET", "The roof\nleaks."},
		"scaled":           {"q .1 0 0 .1 0 0 cm BT /F1 120 Tf 140 TL 720 7000 Td (The roof) Tj T* (leaks.) Tj ET Q", "The roof\nleaks."},
		"several texts":    {"BT /F1 12 Tf 72 700 Td (The roof) Tj ET BT 72 686 Td (leaks.) Tj ET", "The roof\nleaks."},
		"kerned":           {"BT /F1 12 Tf 72 700 Td [(The r) 20 (oo) -30 (f) -300 (leaks.)] TJ ET", "The roof leaks."},
		"apart":            {"BT /F1 12 Tf 72 700 Td (Roof) Tj 200 0 Td (42) Tj ET", "Roof 42"},
		"raised":           {"BT /F1 12 Tf 72 700 Td (x) Tj 6 4 Td (2) Tj ET", "x2"},
		"upwards":          {"BT /F1 12 Tf 0 1 -1 0 72 300 Tm 14 TL (The roof) Tj T* (leaks.) Tj ET", "The roof\nleaks."},
		"ligature":         {"BT /F2 12 Tf 72 700 Td (\\001\\006\\007) Tj ET", "find"},
		"divided":          {"BT /F1 12 Tf 14 TL 72 700 Td (The exam-) Tj T* (ple of Ann-) Tj T* (Marie) Tj ET", "The example of Ann-\nMarie"},
		"from the right":   {"BT /F2 12 Tf 72 700 Td (\\004\\003\\002 \\003\\002) Tj ET", "\u05e9\u05dc \u05e9\u05dc\u05dd"},
		"letter by letter": {"BT /F2 12 Tf 90 700 Td (\\002) Tj -6 0 Td (\\003) Tj -6 0 Td (\\004) Tj ET", "\u05e9\u05dc\u05dd"},
	} {
		if got, err := Text(documenttest.DrawnPDF(c.drawn)); err != nil || got != "[page 1]\n"+c.want+"\n" {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// A broken or malicious document is refused with an explanation.
func TestHostileDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	whole := documenttest.PDF("The roof leaks.")
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
		"PDF of pictures":  {documenttest.PDF(""), "it has no text"},
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

// A page tree that leads back to itself is refused at once, wherever it does so.
func TestPageTreeWithACycleIsRefused(t *testing.T) {
	t.Parallel()
	const page, letters = "<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources << /Font << /F1 6 0 R >> >> >>", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
	said := documenttest.Stream("", "BT /F1 24 Tf 72 700 Td (The roof leaks.) Tj ET")
	for name, nodes := range map[string][2]string{
		"the root in itself":    {"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 5 >>", page},
		"behind a page":         {"<< /Type /Pages /Kids [4 0 R 3 0 R] /Count 9 >>", "<< /Type /Pages /Parent 2 0 R /Kids [2 0 R] /Count 9 >>"},
		"a node many times":     {"<< /Type /Pages /Kids [3 0 R 3 0 R 3 0 R] /Count 99999 >>", "<< /Type /Pages /Parent 2 0 R /Kids [] /Count 33333 >>"},
		"without a single page": {"<< /Type /Pages /Kids [3 0 R] /Count 99999 >>", "<< /Type /Pages /Kids [2 0 R] /Count 99999 >>"},
	} {
		text, err := Text(documenttest.PDFOf("<< /Type /Catalog /Pages 2 0 R >>", nodes[0], nodes[1], page, said, letters))
		var problem *Problem
		if !errors.As(err, &problem) || !strings.Contains(problem.Words, "form a circle") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	parents := documenttest.PDFOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Parent 3 0 R /Kids [4 0 R] /Count 1 >>",
		"<< /Type /Pages /Parent 2 0 R >>", "<< /Type /Page /Parent 2 0 R /Contents 5 0 R >>", said)
	if text, err := Text(parents); err != nil || !strings.Contains(text, "The roof leaks.") {
		t.Errorf("a circle of parents, which nothing needs: %q, %v", text, err)
	}
}

// pdfWithForm returns a PDF with one page that draws the form X1, object 6. Further objects are
// numbered from 7.
func pdfWithForm(drawn, form string, more ...string) []byte {
	return documenttest.PDFOf(append([]string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F1 5 0 R >> /XObject << /X1 6 0 R >> >> >>",
		"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>", documenttest.Stream("", drawn),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>", form,
	}, more...)...)
}

// The text of forms is read where the page draws them. A form that draws itself is skipped.
func TestTextOfForms(t *testing.T) {
	t.Parallel()
	const entries = "/Type /XObject /Subtype /Form /BBox [0 0 612 792] "
	const own = entries + "/Resources << /Font << /F1 5 0 R >> /XObject << /X1 6 0 R /X2 7 0 R >> >> "
	const before, behind = "BT /F1 24 Tf 72 700 Td (Before) Tj ET", "BT /F1 24 Tf 72 600 Td (Behind) Tj ET"
	form := func(entries, drawn string) string { return documenttest.Stream(entries, drawn) }
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"with its own font":         {pdfWithForm(before+" /X1 Do "+behind, form(own, "BT /F1 24 Tf 72 650 Td (The form) Tj ET")), "Before\nThe form\nBehind"},
		"with the page's resources": {pdfWithForm("/X1 Do", form(entries, "BT /F1 24 Tf 72 650 Td (The form) Tj ET")), "The form"},
		"moved to a line": {
			pdfWithForm("BT /F1 24 Tf 72 700 Td (Total:) Tj ET q 1 0 0 1 100 0 cm /X1 Do Q", form(own+"/Matrix [1 0 0 1 100 700]", "BT /F1 24 Tf 0 0 Td (12 EUR) Tj ET")), "Total: 12 EUR",
		},
		"in a form":         {pdfWithForm("/X1 Do", form(own, before+" /X2 Do"), form(own, behind)), "Before\nBehind"},
		"that draws itself": {pdfWithForm("/X1 Do", form(own, before+" /X1 Do "+behind)), "Before\nBehind"},
		"two, each other":   {pdfWithForm("/X1 Do", form(own, before+" /X2 Do"), form(own, behind+" /X1 Do")), "Before\nBehind"},
		"broken":            {pdfWithForm(before+" /X1 Do "+behind, form(own+"/Filter /FlateDecode", "no flate")), "Before\nBehind"},
		"that unbalances":   {pdfWithForm("q /X1 Do Q "+behind, form(own, "Q Q Q 0 0 0 0 0 0 cm")), "Behind"},
	} {
		if text, err := Text(c.data); err != nil || text != "[page 1]\n"+c.want+"\n" {
			t.Errorf("a form %s: %q, %v; want %q", name, text, err, c.want)
		}
	}
	nested := make([]string, 0, 40) // each draws the next one twice: a thousand billion times without text
	for n := range 40 {
		nested = append(nested, form(entries+fmt.Sprintf("/Resources << /XObject << /X1 %d 0 R >> >> ", n+7), "/X1 Do /X1 Do"))
	}
	if text, err := Text(pdfWithForm("/X1 Do /X1 Do "+behind, nested[0], nested[1:]...)); err != nil || !strings.Contains(text, "Behind") {
		t.Errorf("forms in forms: %q, %v", text, err)
	}
}

// deflated returns data in the form of zlib.
func deflated(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zlib.NewWriterLevel(&b, zlib.BestSpeed)
	if err == nil {
		_, err = w.Write(data)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// peakIn returns the most memory of a process, in bytes, from its status that a file holds
// (proc_pid_status(5)).
func peakIn(t *testing.T, file string) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(line, "%d kB", &bytes); err != nil {
		t.Fatalf("%s: %v", status, err)
	}
	return bytes << 10
}

// falseSize returns an archive with a part that says that it is small.
func falseSize(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	packed := deflated(t, data)
	packed = packed[2 : len(packed)-4] // zip has no zlib header
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	part, err := w.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Deflate, CompressedSize64: uint64(len(packed)), UncompressedSize64: 1000})
	if err == nil {
		_, err = part.Write(packed)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A small document that unpacks to a very large one is refused with an explanation, and the process
// that reads it uses little memory.
func TestBombsAreRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the memory of a process is measured on Linux alone")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	words := bytes.Repeat([]byte("<p><t>word word word</t></p>"), 100_000)
	zeros := deflated(t, deflated(t, make([]byte, 4<<20)))
	page := func(contents string) []byte {
		return documenttest.PDFOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>", contents)
	}
	hollow := documenttest.PDF("The roof leaks.")
	for name, c := range map[string]struct {
		data  []byte
		words string // one of them
	}{
		"docx":                 {archive(t, map[string]string{"word/document.xml": "<d>" + string(words)}), "unfolds into too much"},
		"xlsx":                 {archive(t, map[string]string{"xl/workbook.xml": "<w/>", "xl/sharedStrings.xml": strings.Repeat("<si><t>word</t></si>", 100_000)}), "unfolds into too much"},
		"pptx":                 {archive(t, map[string]string{"ppt/presentation.xml": "<w/>", "ppt/slides/slide1.xml": "<d>" + string(words)}), "unfolds into too much"},
		"docx of a false size": {falseSize(t, "word/document.xml", append([]byte("<d>"), words...)), "unfolds into too much|the document is broken"},
		"packed twice":         {page(documenttest.Stream("/Filter [/FlateDecode /FlateDecode]", string(zeros))), "it has no text|takes too"},
		"many objects":         {bytes.Replace(hollow, []byte("/Size 6"), []byte("/Size 2000000000"), 1), ""},
		"many pages":           {bytes.Replace(hollow, []byte("/Count 1"), []byte("/Count 2000000000"), 1), "the document is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			measured := filepath.Join(t.TempDir(), "peak")
			text, err := Extractor{Command: []string{self, "measure=" + measured}}.Text(t.Context(), bytes.NewReader(c.data))
			if peak := peakIn(t, measured); peak > 200<<20 {
				t.Errorf("a document of %d bytes took %d MiB", len(c.data), peak>>20)
			} else {
				t.Logf("%d bytes: peak %d MiB, %v", len(c.data), peak>>20, err)
			}
			var problem *Problem
			if c.words == "" { // what is false is not believed
				if err != nil || text != "[page 1]\nThe roof leaks.\n" {
					t.Errorf("%q, %v", text, err)
				}
			} else if !errors.As(err, &problem) || !regexp.MustCompile(c.words).MatchString(problem.Words) {
				t.Errorf("%q, %v; want %q", text[:min(len(text), 40)], err, c.words)
			}
		})
	}
}

// Of a document with too much text, the beginning is kept.
func TestALongDocumentIsCut(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for n := 0; long.Len() < MaxText+MaxText/8; n++ {
		fmt.Fprintf(&long, "<p><t>%s</t></p>", strings.Repeat(fmt.Sprint("number ", n, " "), 80))
	}
	text, err := Text(archive(t, map[string]string{"word/document.xml": "<d>" + long.String() + "</d>"}))
	if err != nil || len(text) > MaxText || len(text) < MaxText-2000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// When the process that reads a document crashes or takes too much memory, the gateway goes on, and says
// what was wrong.
func TestDocumentIsReadInAnotherProcess(t *testing.T) {
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
		text, err := Extractor{Command: []string{self, argument}}.Text(t.Context(), bytes.NewReader(documenttest.PDF("The roof leaks.")))
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
