package cli

import (
	"regexp"
	"strings"
	"testing"

	"parley/plaintext"

	"github.com/google/go-cmp/cmp"
)

var anySGR = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// shown returns the visible text of Markdown in a terminal with colours.
func shown(src string, columns int) string {
	return anySGR.ReplaceAllString(strings.Join(newTypesetter(true).render(src, columns), "\n"), "")
}

func TestMarkdownIsRendered(t *testing.T) {
	for name, tc := range map[string]struct{ src, want string }{
		"paragraphs":       {"one\ntwo\n\nthree", "one two\n\nthree"},
		"hard break":       {"one  \ntwo\\\nthree", "one\ntwo\nthree"},
		"wrapped":          {"one two three four five six seven", "one two three four five six\nseven"},
		"wide letters":     {strings.Repeat("漢", 16), strings.Repeat("漢", 14) + "\n漢漢"},
		"long word":        {"a " + strings.Repeat("x", 40), "a\n" + strings.Repeat("x", 29) + "\n" + strings.Repeat("x", 11)},
		"escapes":          {`\*a\* &amp; \&lt; AT&T`, "*a* & &lt; AT&T"},
		"spaces of TeX":    {`2\,3 **a\;b** \_c\_ C:\,`, `2\,3 a\;b _c_ C:\,`},
		"heading":          {"# One\ntext", "One\n\ntext"},
		"bullets":          {"- one two three four five six seven\n- b\n  - c", "• one two three four five six\n  seven\n• b\n  • c"},
		"numbers":          {"9. a\n10. b\n    - c", " 9. a\n10. b\n    • c"},
		"loose list":       {"- a\n\n  b\n- c", "• a\n\n  b\n\n• c"},
		"list in list":     {"- - a\n  - b", "• • a\n  • b"},
		"empty item":       {"-\n- b", "•\n• b"},
		"tasks":            {"- [x] done\n- [ ] to do", "☑ done\n☐ to do"},
		"quote":            {"> one\n>\n> - two\n\nend", "│ one\n│\n│ • two\n\nend"},
		"code":             {"```go\nif a {\n\treturn *b*\n}\n```", "  if a {\n      return *b*\n  }"},
		"code not wrapped": {"    " + strings.Repeat("x ", 30) + "x", "  " + strings.Repeat("x ", 30) + "x"},
		"code in a list":   {"1. a\n   ```\n   b\n   ```", "1. a\n     b"},
		"rule":             {"a\n\n---\n\nb", "a\n\n" + strings.Repeat("─", 29) + "\n\nb"},
		"link":             {"[a](http://b.c/d)", "a (http://b.c/d)"},
		"link to itself":   {"[b.c](https://b.c/) <http://d.e>", "b.c http://d.e"},
		"image":            {"![a](b.png) ![](c.png)", "a (b.png) c.png"},
		"html":             {"<div>\na\n</div>\n\na<br>b <i>c</i>", "<div>\na\n</div>\n\na\nb <i>c</i>"},
		"only a reference": {"[a]: http://b.c", "[a]: http://b.c"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, shown(tc.src, 30)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTables(t *testing.T) {
	for name, tc := range map[string]struct {
		src     string
		columns int
		want    []string
	}{
		"aligned": {"|Name|Count|\n|:-|-:|\n|猫 🐈|1|\n|e\u0301|20 000|", 40, []string{
			"Name  │  Count",
			"──────┼───────",
			"猫 🐈 │      1",
			"e\u0301     │ 20 000",
		}},
		"squeezed": {"|Key|Meaning|\n|-|-|\n|a|" + strings.Repeat("word ", 6) + "|\n|b|one<br>two|", 25, []string{
			"Key │ Meaning",
			"────┼───────────────────",
			"a   │ word word word",
			"    │ word word word",
			"b   │ one",
			"    │ two",
		}},
		"too narrow": {"|First name|Last name|Address|\n|-|-|-|\n|Ada Maria|Lovelace|Somewhere|\n|B|C|D|", 21, []string{
			"First name: Ada",
			"Maria",
			"Last name: Lovelace",
			"Address: Somewhere",
			"",
			"First name: B",
			"Last name: C",
			"Address: D",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(strings.Join(tc.want, "\n"), shown(tc.src, tc.columns)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStylesOfMarkdown(t *testing.T) {
	src := "### T\n\n**b** *i* ~~s~~ `c` ***both***\n\n[a](http://b.c)"
	want := []string{
		"\x1b[1mT\x1b[0m",
		"",
		"\x1b[1mb\x1b[0m \x1b[3mi\x1b[0m \x1b[9ms\x1b[0m \x1b[36mc\x1b[0m \x1b[1;3mboth\x1b[0m",
		"",
		"\x1b[4ma\x1b[0m\x1b[2m (http://b.c)\x1b[0m",
	}
	if diff := cmp.Diff(want, newTypesetter(true).render(src, 60)); diff != "" {
		t.Error(diff)
	}
	want = []string{"### T", "", "**b** *i* ~~s~~ `c` ***both***", "", "a (http://b.c)"}
	if diff := cmp.Diff(want, newTypesetter(false).render(src, 60)); diff != "" {
		t.Error("without colours:", diff)
	}
}

// A style must not continue in the indent of a wrapped line.
func TestStylesEndWithTheLine(t *testing.T) {
	for _, line := range newTypesetter(true).render("> - **"+strings.Repeat("word ", 20)+"end**", 30) {
		if !strings.HasSuffix(line, "\x1b[0m") {
			t.Errorf("%q goes on", line)
		}
	}
}

// Texts whose parsing would take seconds are shown as they were written.
func TestCostlyMarkdownShowsAsItIs(t *testing.T) {
	for name, hostile := range map[string]string{
		"quotes": strings.Repeat("> ", 30_000), "lists": strings.Repeat("- ", 30_000), "links": strings.Repeat("[a](", 15_000),
	} {
		if src := hostile + "**end**"; shown(src, 80) != src {
			t.Errorf("%s: the text is rendered", name)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add("> 1. **a** `b`\n>\n> |a|b|\n> |-|-|\n> |c|d|\n", 40)
	f.Add("- [ ] &#27;[2J \\\n  ![x](y)\n***\n", 3)
	f.Fuzz(func(t *testing.T, src string, columns int) {
		src = plaintext.ForTerminal(src)
		for _, line := range newTypesetter(true).render(src, columns) {
			if onlySGR(line) != line || len(src) < 1000 && strings.Contains(line, "\n") {
				t.Errorf("%q from %q", line, src)
			}
		}
	})
}

// Formulas keep their backslashes, stars and underscores: the terminal shows them as
// they were written.
func TestFormulasStayAsTheyWereWritten(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	m := newTypesetter(newPalette())
	for _, formula := range []string{`\(a^2\)`, `\[ \int_0^1 x\,dx \]`, `$a_1*b_1*c$`, `$$\frac{1}{2}\%$$`, `\(x \, y\)`} {
		if got := strings.Join(m.render("It is "+formula+", as **said**.", 80), "\n"); got != "It is "+formula+", as **said**." {
			t.Errorf("shown as %q", got)
		}
	}
	block := "\\[\na \\\\ b\n\\]"
	if got := strings.Join(m.render("Thus\n\n"+block+"\n\nholds.", 80), "\n"); got != "Thus\n\n"+block+"\n\nholds." {
		t.Errorf("shown as %q", got)
	}
	if got := strings.Join(m.render(`2 \* 3 and \_this\_`, 80), "\n"); got != "2 * 3 and _this_" {
		t.Errorf("escapes are shown as %q", got)
	}
}

// Commands and addresses are not wrapped, so that people can copy them.
func TestCommandsAreNotBroken(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	m := newTypesetter(newPalette())
	for columns := 24; columns < 60; columns++ {
		got := strings.Join(m.render("There are more of them. Read one: `/history #2 10`, or /search apples, or https://example.com/a/b/c.", columns), "\n")
		for _, whole := range []string{"/history #2 10", "/search"} {
			if !strings.Contains(got, whole) {
				t.Errorf("%d columns: %q is broken:\n%s", columns, whole, got)
			}
		}
	}
}

func TestNoColor(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for _, line := range newTypesetter(newPalette()).render("# Title\n\n**bold** `code`\n\n```go\nfunc main() {}\n```", 60) {
		if strings.Contains(line, "\x1b") {
			t.Errorf("%q has colour in it", line)
		}
	}
}

// The lines of a recap are wrapped between words, and every row is indented.
func TestIntroIsWrappedAtWordsAndKeepsItsIndent(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		strings.Repeat("words ", 4) + "wrapped": "words words words\nwords wrapped",
		"  some more words that are wrapped":    "  some more words\n  that are wrapped",
		"short":                                 "short",
	} {
		if got := indented(line, 19); got != want {
			t.Errorf("%q is shown as %q, want %q", line, got, want)
		}
	}
}

// A list of sources that an answer does not refer to is a part of the answer: readers see it.
func TestDefinitionsOfLinksThatNothingRefersToAreShown(t *testing.T) {
	t.Parallel()
	got := newTypesetter(false).render("See [the first][1].\n\n[1]: https://x.org/a\n[2]: https://x.org/b", 80)
	if diff := cmp.Diff([]string{"See the first (https://x.org/a).", "", "[2]: https://x.org/b"}, got); diff != "" {
		t.Error(diff)
	}
}
