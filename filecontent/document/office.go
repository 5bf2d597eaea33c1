package document

import (
	"archive/zip"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What is read of an archive, so that a small one can't unfold into much.
const (
	maxEntries  = 10_000
	maxUnpacked = 64 << 20 // bytes of all parts together
	maxRatio    = 100      // how many times its packed size a part may have; Apache POI's ZipSecureFile has the same limit
	anyRatio    = 1 << 20  // bytes up to which a part may have any ratio
)

// errUnfolds says that an archive has more in it than is read.
var errUnfolds = &Problem{"the document unfolds into too much"}

// notOffice says of an archive that it is no office document.
var notOffice = &Problem{"it is an archive and no document"}

// office reads the parts of an office document: archives of XML, as Microsoft Office
// (ECMA-376) and OpenDocument have them.
type office struct {
	parts   map[string]*zip.File
	room    int64 // bytes that may still be unpacked
	text    writer
	strings []string // texts of a spreadsheet, which cells name by their number
}

func officeText(archive *zip.Reader) (string, error) {
	if len(archive.File) > maxEntries {
		return "", errUnfolds
	}
	o := &office{parts: map[string]*zip.File{}, room: maxUnpacked}
	for _, f := range archive.File {
		o.parts[f.Name] = f
	}
	var err error
	switch {
	case o.parts["word/document.xml"] != nil:
		err = o.read("word/document.xml", o.flowing)
	case o.parts["xl/workbook.xml"] != nil:
		err = o.sheets()
	case o.parts["ppt/presentation.xml"] != nil:
		err = o.each(slideName, "slide", o.flowing)
	case o.parts["content.xml"] != nil && o.parts["mimetype"] != nil:
		err = o.read("content.xml", o.flowing)
	default:
		return "", notOffice
	}
	if err != nil && !errors.Is(err, errFull) {
		return "", problemOf(err)
	}
	text := strings.TrimSpace(o.text.String())
	if text == "" {
		return "", &Problem{"it has no text"}
	}
	return text, nil
}

func problemOf(err error) error {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem
	}
	return broken
}

// errFull ends the reading when there is no more room for text.
var errFull = errors.New("there is no more room for text")

var (
	slideName = regexp.MustCompile(`^ppt/slides/slide(\d+)\.xml$`)
	sheetName = regexp.MustCompile(`^xl/worksheets/sheet(\d+)\.xml$`)
)

// each reads the parts whose names have a form with a number, in their order.
func (o *office) each(form *regexp.Regexp, kind string, read func(*xml.Decoder) error) error {
	var names []string
	number := func(name string) int {
		n, _ := strconv.Atoi(form.FindStringSubmatch(name)[1])
		return n
	}
	for name := range o.parts {
		if form.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	for i, name := range names {
		o.text.page(kind, i+1)
		if err := o.read(name, read); err != nil {
			return err
		}
	}
	return nil
}

// read unpacks a part and reads its XML.
func (o *office) read(name string, read func(*xml.Decoder) error) error {
	part := o.parts[path.Clean(name)]
	unpacked := &bounded{most: min(o.room, max(anyRatio, maxRatio*int64(part.CompressedSize64)))}
	if part.UncompressedSize64 > uint64(unpacked.most) {
		return errUnfolds
	}
	opened, err := part.Open()
	if err != nil {
		return err
	}
	defer opened.Close()
	unpacked.Reader = opened
	decoder := xml.NewDecoder(unpacked)
	decoder.Strict = false
	err = read(decoder)
	o.room -= unpacked.read
	return err
}

// bounded reads at most so many bytes: the size that an archive declares may be false.
type bounded struct {
	io.Reader
	read, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.read += int64(n); b.read > b.most {
		return 0, errUnfolds
	}
	return n, err
}

// flowing adds the text of paragraphs and tables. In documents of Microsoft Office
// text stands in elements named t, in OpenDocument anywhere in the body.
func (o *office) flowing(decoder *xml.Decoder) error {
	inText, inBody := 0, 0
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		added := true
		switch t := token.(type) {
		case xml.StartElement:
			switch name := t.Name.Local; {
			case name == "t":
				inText++
			case name == "body" && strings.Contains(t.Name.Space, "opendocument"):
				inBody++
			case name == "tab":
				added = o.text.add("\t")
			case name == "br" || name == "line-break":
				added = o.text.add("\n")
			case name == "s" && inBody > 0:
				added = o.text.add(" ")
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "t":
				inText--
			case "body":
				inBody = max(0, inBody-1)
			case "p", "h", "tr", "table-row":
				added = o.text.add("\n")
			case "tc", "table-cell":
				added = o.text.add("\t")
			}
		case xml.CharData:
			if inText > 0 || inBody > 0 {
				added = o.text.add(string(t))
			}
		}
		if !added {
			return errFull
		}
	}
}

// sheets adds the cells of a spreadsheet, a line for each row.
func (o *office) sheets() error {
	if o.parts["xl/sharedStrings.xml"] != nil {
		if err := o.read("xl/sharedStrings.xml", o.sharedStrings); err != nil {
			return err
		}
	}
	return o.each(sheetName, "sheet", o.cells)
}

func (o *office) sharedStrings(decoder *xml.Decoder) error {
	var item strings.Builder
	inText := false
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			inText = t.Name.Local == "t"
		case xml.EndElement:
			inText = false
			if t.Name.Local == "si" {
				o.strings = append(o.strings, item.String())
				item.Reset()
			}
		case xml.CharData:
			if inText {
				item.Write(t)
			}
		}
	}
}

func (o *office) cells(decoder *xml.Decoder) error {
	kind, inValue := "", false
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		added := true
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "c":
				kind = ""
				for _, a := range t.Attr {
					if a.Name.Local == "t" {
						kind = a.Value
					}
				}
			case "v", "t":
				inValue = true
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "v", "t":
				inValue = false
			case "c":
				added = o.text.add("\t")
			case "row":
				added = o.text.add("\n")
			}
		case xml.CharData:
			if inValue {
				added = o.text.add(o.value(kind, string(t)))
			}
		}
		if !added {
			return errFull
		}
	}
}

// value returns what a cell of a kind shows.
func (o *office) value(kind, text string) string {
	if kind != "s" {
		return text
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n >= len(o.strings) {
		return text
	}
	return o.strings[n]
}
