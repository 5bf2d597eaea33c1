package fulltext

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

func TestTokenize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, words, parts string }{
		{"", "", ""},
		{"-- \u0301 👍🏽 !", "", ""},
		{"The Database", "the database", ""},
		{"Un cafe\u0301 à Liège", "un cafe a liege", ""},
		{"Die Straße", "die strasse", ""},
		{"parse_config", "parse config", ""},
		{"parseConfig HTTPServer sha256", "parseconfig httpserver sha256", "parse config http server sha 256"},
		{"x86Linux", "x86linux", "x 86 linux"},
		{"数据库", "数 据 库", ""},
		{"Go言語", "go 言 語", ""},
		{"ｻｰﾊﾞｰ", "サ ー バ ー", ""},
		{"हिन्दी में", "हिन्दी में", ""},
		{"ｐａｒｓｅ", "parse", ""},
		{strings.Repeat("a", 100) + " b", strings.Repeat("a", 64) + " b", ""},
	} {
		words, parts := Tokenize(c.text)
		if Join(words) != c.words || Join(parts) != c.parts {
			t.Errorf("%q: words %q, parts %q, want %q, %q", c.text, Join(words), Join(parts), c.words, c.parts)
		}
	}
}

// Tokens have the right positions, in order. The text of a token is one token again, so that everything indexed can be found.
func FuzzTokenize(f *testing.F) {
	for _, seed := range []string{"parseConfig", "a\u0301\u0301", "数据库 ﾊﾞ", "½ ﬃ ℌ ①", "Aa1bB2", "\xff\xfe", "เขาก็มา"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, parts := Tokenize(text)
		normal := norm.NFC.String(text)
		for _, list := range [][]Token{words, parts} {
			end := 0
			for _, w := range list {
				if w.Start < end || w.End <= w.Start || w.End > len(normal) || w.Text == "" || len(w.Text) > maxToken {
					t.Fatalf("%q has the token %+v, behind byte %d", text, w, end)
				}
				end = w.End
			}
		}
	})
}
