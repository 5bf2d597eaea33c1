package webfetch

import (
	"testing"
	"unicode/utf8"
)

// A body is decoded to UTF-8 whatever encoding its server names, and is not many times as long then.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("gr\xFC\xDFe"), "text/html; charset=iso-8859-1")
	f.Add([]byte("<meta charset=shift_jis>\x83\x65"), "text/html")
	f.Add([]byte("\xFE\xFF\x00a"), "text/plain")
	f.Add([]byte("\xEF\xBB\xBFa"), "text/plain; charset=utf-16le")
	f.Add([]byte("\x1b$B%F\x1b(B"), "text/plain; charset=iso-2022-jp")
	f.Fuzz(func(t *testing.T, body []byte, declared string) {
		var p page
		text, err := decode(&p, body, declared)
		if err == nil && (!utf8.ValidString(text) || len(text) > 4*len(body)) {
			t.Errorf("%d bytes become %d: %q", len(body), len(text), text)
		}
	})
}
