package markdown_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"parley/channels/markdown"
)

func TestSplitKeepsShortTextWhole(t *testing.T) {
	t.Parallel()
	got := markdown.Split("one\n\ntwo", 100, markdown.UTF16)
	if diff := cmp.Diff([]string{"one\n\ntwo"}, got); diff != "" {
		t.Fatal(diff)
	}
	if got := markdown.Split(" \n\t ", 100, markdown.UTF16); got != nil {
		t.Fatalf("blank text gave %q", got)
	}
}

// wordsOf returns n words of four characters, separated by spaces.
func wordsOf(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }

// splitPlaces are texts, and the parts of at most 64 characters into which they are split. A reader sees no
// halves of links, code or spoilers with their bare marks.
var splitPlaces = map[string]struct {
	text string
	want []string
}{
	"paragraph before line": {
		wordsOf(8) + "\nline\n\n" + wordsOf(4) + "\n" + wordsOf(5),
		[]string{wordsOf(8) + "\nline", wordsOf(4) + "\n" + wordsOf(5)},
	},
	"line before sentence": {
		wordsOf(7) + "\n" + wordsOf(2) + ". " + wordsOf(9),
		[]string{wordsOf(7), wordsOf(2) + ". " + wordsOf(9)},
	},
	"sentence before word": {
		wordsOf(6) + ". " + wordsOf(9),
		[]string{wordsOf(6) + ".", wordsOf(9)},
	},
	"word": {
		wordsOf(20),
		[]string{wordsOf(13), wordsOf(7)},
	},
	"character": {
		strings.Repeat("x", 70),
		[]string{strings.Repeat("x", 64), strings.Repeat("x", 6)},
	},
	"a family stays together": {
		strings.Repeat("x", 60) + "👨‍👩‍👧",
		[]string{strings.Repeat("x", 60), "👨‍👩‍👧"},
	},
	"both halves of a surrogate pair": {
		strings.Repeat("x", 63) + "😀",
		[]string{strings.Repeat("x", 63), "😀"},
	},
	"code is closed and opened again": {
		"```go\n" + strings.Repeat("line()\n", 12) + "```",
		[]string{
			"```go\n" + strings.Repeat("line()\n", 7) + "```",
			"```go\n" + strings.Repeat("line()\n", 5) + "```",
		},
	},
	"code moves whole when it fits the next part": {
		wordsOf(6) + "\n\n```\n" + strings.Repeat("a\n\nb\n", 7) + "```",
		[]string{wordsOf(6), "```\n" + strings.Repeat("a\n\nb\n", 7) + "```"},
	},
	"code in a list is opened again without the bullet": {
		"- ```go\n" + strings.Repeat("  line()\n", 9) + "  ```\n- b",
		[]string{
			"- ```go\n" + strings.Repeat("  line()\n", 5) + "  ```",
			"  ```go\n" + strings.Repeat("  line()\n", 4) + "  ```\n- b",
		},
	},
	"a line of a quote is quoted again": {
		"> " + wordsOf(20),
		[]string{"> " + wordsOf(12), "> " + wordsOf(8)},
	},
	"code in a quote is closed and opened again in it": {
		"> ```\n" + strings.Repeat("> line()\n", 8) + "> ```",
		[]string{
			"> ```\n" + strings.Repeat("> line()\n", 5) + "> ```",
			"> ```\n" + strings.Repeat("> line()\n", 3) + "> ```",
		},
	},
	"a link stays whole": {
		wordsOf(8) + " ([two words. More](https://x.org/a_(b))) " + wordsOf(4),
		[]string{wordsOf(8), "([two words. More](https://x.org/a_(b))) " + wordsOf(4)},
	},
	"code in a line stays whole": {
		wordsOf(8) + " ``a ` b: c d e f g h i j k l`` " + wordsOf(4),
		[]string{wordsOf(8), "``a ` b: c d e f g h i j k l`` " + wordsOf(4)},
	},
	"a spoiler stays whole": {
		wordsOf(8) + " ||he did it. He was the gardener|| " + wordsOf(4),
		[]string{wordsOf(8), "||he did it. He was the gardener|| " + wordsOf(4)},
	},
	"bold text of an item stays whole": {
		wordsOf(8) + "\n- **bold text. And more of it** " + wordsOf(4),
		[]string{wordsOf(8), "- **bold text. And more of it** " + wordsOf(4)},
	},
	"emphasis longer than a part": {
		"*" + wordsOf(20) + "*",
		[]string{"*" + wordsOf(12), wordsOf(8) + "*"},
	},
	"marks that open nothing": {
		wordsOf(8) + " 2 * 3 and snake_case a_b ~ | x " + wordsOf(4) + " 4 * 5",
		[]string{wordsOf(8) + " 2 * 3 and snake_case a_b", "~ | x " + wordsOf(4) + " 4 * 5"},
	},
	"a heading goes with its text": {
		wordsOf(6) + "\n\n# Title\n\n" + wordsOf(6),
		[]string{wordsOf(6), "# Title\n\n" + wordsOf(6)},
	},
	"indentation of code stays": {
		"```\n" + strings.Repeat("    x\n", 12) + "```",
		[]string{
			"```\n" + strings.Repeat("    x\n", 9) + "```",
			"```\n" + strings.Repeat("    x\n", 3) + "```",
		},
	},
}

func TestSplitPlaces(t *testing.T) {
	t.Parallel()
	for name, tt := range splitPlaces {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, markdown.Split(tt.text, 64, markdown.UTF16)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestSplitOfHugeTextIsQuick(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"letters":    strings.Repeat("x", 1<<20),
		"combining":  "e" + strings.Repeat("\u0301", 1<<19),
		"blank":      "x" + strings.Repeat("\n", 1<<20) + "y",
		"fences":     strings.Repeat("```\nx\n```\n", 1<<17),
		"open fence": "```go\n" + strings.Repeat("x\n", 1<<19),
		"spaces":     "x" + strings.Repeat(" ", 1<<20) + "y",
		"stars":      strings.Repeat("*a ", 1<<18),
		"ticks":      strings.Repeat("` `` ``` a ", 1<<16),
		"brackets":   strings.Repeat("[](a ", 1<<17),
		"lines":      strings.Repeat("_a __b ||c ~~d ", 1<<16),
		"invalid":    strings.Repeat("\xff", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			for _, part := range markdown.Split(text, 4096, markdown.UTF16) {
				if n := markdown.Units(markdown.UTF16).Count(part); n > 4096 {
					t.Fatalf("a part has %d units", n)
				}
			}
		})
	}
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"", "plain", "a\n\nb", "```go\nx\n```", "````\n```\n````\n" + strings.Repeat("x ", 200),
		strings.Repeat("👨‍👩‍👧", 40), "~~~ `\n" + strings.Repeat("\n", 200), "\xff\x00```\n```\n```",
		"```" + strings.Repeat("l", 100) + "\n" + strings.Repeat("y", 300),
	} {
		f.Add(seed, uint16(64))
		f.Add(seed, uint16(2000))
	}
	f.Fuzz(func(t *testing.T, text string, limit uint16) {
		limit = max(limit, 64)
		units := markdown.Units(markdown.UTF16)
		parts := markdown.Split(text, int(limit), units)
		for _, part := range parts {
			if n := units.Count(part); n > int(limit) {
				t.Fatalf("a part has %d units, more than %d: %q", n, limit, part)
			}
			if strings.TrimSpace(part) == "" {
				t.Fatalf("blank part of %q", text)
			}
			if utf8.ValidString(text) && !utf8.ValidString(part) {
				t.Fatalf("a rune was cut: %q", part)
			}
		}
		if missing := missingText(text, strings.Join(parts, "\n")); missing != "" {
			t.Fatalf("lost from %q: %q", text, missing)
		}
	})
}

// missingText returns the rest of text, without white space, from the first character on that is not
// in whole in the same order. whole may contain more, such as repeated fences.
func missingText(text, whole string) string {
	rest := []rune(whole)
	for i, r := range text {
		if unicode.IsSpace(r) {
			continue
		}
		for len(rest) > 0 && rest[0] != r {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return text[i:]
		}
		rest = rest[1:]
	}
	return ""
}
