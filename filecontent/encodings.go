package filecontent

import (
	"bytes"
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/gogs/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"

	"parley/conversation/files"
)

// maxDecoded is the most bytes of UTF-8 that are made of a text in another encoding.
const maxDecoded = 8 << 20

// decodedEnd is the last line of a longer one.
const decodedEnd = "\n[the rest of the file is not read]"

// isUTF8 reports whether a file that begins so is UTF-8. The last character of the
// beginning may be cut off.
func isUTF8(head []byte) bool {
	return bytes.IndexByte(head, 0) < 0 && utf8.Valid(whole(head))
}

// decode opens a text in another encoding than UTF-8. What it says is made once and kept
// with the file.
func (r *Reader) decode(ctx context.Context, file files.File, opened *files.Reader, head []byte) (*Content, error) {
	from := EncodingOf(head)
	if from == nil {
		return nil, notText
	}
	text, err := io.ReadAll(io.LimitReader(from.NewDecoder().Reader(opened.Whole()), maxDecoded+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxDecoded {
		text = append(whole(text[:maxDecoded]), decodedEnd...)
	}
	form := files.Form{Kind: files.FormText, MediaType: "text/plain", Data: text}
	return contentOf(form), r.files.AddForm(ctx, file, form)
}

// EncodingOf returns the encoding of a text that is not UTF-8, by its beginning; nil for
// what is no text. A guess between the encodings of the West gives Windows-1252.
func EncodingOf(head []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(head, []byte{0xFF, 0xFE}), bytes.HasPrefix(head, []byte{0xFE, 0xFF}):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case bytes.IndexByte(head, 0) >= 0:
		return nil
	}
	const sure = 50 // percent
	guess, err := chardet.NewTextDetector().DetectBest(head)
	if err == nil && guess.Confidence >= sure && !strings.HasPrefix(guess.Charset, "ISO-8859-1") && !strings.HasPrefix(guess.Charset, "UTF-") {
		if found, err := htmlindex.Get(guess.Charset); err == nil {
			return found
		}
	}
	for _, unused := range []byte{0x81, 0x8D, 0x8F, 0x90, 0x9D} { // no characters of Windows-1252
		if bytes.IndexByte(head, unused) >= 0 {
			return nil
		}
	}
	return charmap.Windows1252
}
