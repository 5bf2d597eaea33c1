package filecontent

import (
	"strings"
	"testing"
	"unicode/utf8"

	"parley/conversation/files"
)

// The pages of a text make the whole text, and texts of any encoding become UTF-8.
func FuzzPages(f *testing.F) {
	f.Add("a text", 3)
	f.Add("größer, 文字, 👍🏽", 4)
	f.Add("\xFF\xFEa\x00\xD8\x00", 5)
	f.Add("cut \xf0\x9f\x91", 4)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = 1 + max(size, -size-1)%64
		content := contentOf(files.Form{Data: []byte(text)})
		var all strings.Builder
		for page := int64(0); page*int64(size) < content.Size; page++ {
			part, err := content.ReadPage(page, size)
			if err != nil || !utf8.ValidString(part) || len(part) > 3*(size+utf8.UTFMax) {
				t.Fatalf("page %d: %q, %v", page, part, err)
			}
			all.WriteString(part)
		}
		if utf8.ValidString(text) && all.String() != text {
			t.Errorf("pages of %d bytes of %q make %q", size, text, all.String())
		}
		if from := EncodingOf([]byte(text)); from != nil {
			if decoded, err := from.NewDecoder().Bytes([]byte(text)); err == nil && (!utf8.Valid(decoded) || len(decoded) > 4*len(text)+4) {
				t.Errorf("%q becomes %q", text, decoded)
			}
		}
	})
}
