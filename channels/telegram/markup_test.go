package telegram

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram/telegramtest"
	"parley/plaintext"

	"parley/channels/markdown"
)

func TestMarkdownBecomesTelegramHTML(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ markdown, html string }{
		"plain":              {"Hello, world!", "Hello, world!"},
		"escapes":            {"1 < 2 && 3 > 2 \"quoted\"", "1 &lt; 2 &amp;&amp; 3 &gt; 2 \"quoted\""},
		"emphasis":           {"*a* **b** ***c*** ~~d~~", "<i>a</i> <b>b</b> <b><i>c</i></b> <s>d</s>"},
		"nested emphasis":    {"**bold *both* bold**", "<b>bold <i>both</i> bold</b>"},
		"underline":          {"<u>under **both**</u> plain", "<u>under </u><b><u>both</u></b> plain"},
		"code span":          {"use `a < b` now", "use <code>a &lt; b</code> now"},
		"code in bold":       {"**see `x` here**", "<b>see </b><code>x</code><b> here</b>"},
		"code block":         {"```go\nif a < b {\n\treturn\n}\n```", "<pre><code class=\"language-go\">if a &lt; b {\n\treturn\n}</code></pre>"},
		"code, no language":  {"text\n\n```\nx\n```\nafter", "text\n\n<pre>x</pre>\n\nafter"},
		"hostile language":   {"```\"><b>x\ny\n```", "<pre><code class=\"language-bx\">y</code></pre>"},
		"link":               {"[a & b](https://x.org/?a=1&b=2)", "<a href=\"https://x.org/?a=1&amp;b=2\">a &amp; b</a>"},
		"bold link":          {"**[a](https://x.org)**", "<a href=\"https://x.org\"><b>a</b></a>"},
		"code link":          {"[`f()`](https://x.org)", "<a href=\"https://x.org\">f()</a>"},
		"relative link":      {"[a](docs/a.md)", "a (docs/a.md)"},
		"script link":        {"[a](javascript:alert)", "a (javascript:alert)"},
		"image":              {"![a cat](https://x.org/c.png)", "<a href=\"https://x.org/c.png\">a cat</a>"},
		"image without text": {"![](https://x.org/c.png)", "<a href=\"https://x.org/c.png\">https://x.org/c.png</a>"},
		"bare address":       {"see https://x.org/a_b_c", "see https://x.org/a_b_c"},
		"autolink":           {"<https://x.org>", "https://x.org"},
		"heading":            {"# Top *it*\ntext", "<b>Top <i>it</i></b>\n\ntext"},
		"quote":              {"> a\n> b\n>\n> c\n\nafter", "<blockquote>a\nb\n\nc</blockquote>\n\nafter"},
		"quote in quote":     {"> a\n> > b", "<blockquote>a\n\nb</blockquote>"},
		"code in quote":      {"> a\n>\n> ```\n> x\n> ```", "<blockquote>a\n\n</blockquote><pre>x</pre>"},
		"list":               {"- a\n- b\n  - c\n    more\n- d", "• a\n• b\n  • c\n    more\n• d"},
		"numbers":            {"3. a\n4. b\n   1. c", "3. a\n4. b\n  1. c"},
		"loose list":         {"1. a\n\n   more\n\n2. b", "1. a\n\n  more\n\n2. b"},
		"code in list":       {"- a\n  ```sh\n  ls\n  ```\n- b", "• a\n<pre><code class=\"language-sh\">ls</code></pre>\n• b"},
		"tasks":              {"- [x] a\n- [ ] b", "☑ a\n☐ b"},
		"rule":               {"a\n\n---\n\nb", "a\n\n———\n\nb"},
		"table": {
			"| Name | n |\n|:--|--:|\n| **Ada** | 1 |\n| Bo | 22 |",
			"<pre>Name   n\n----  --\nAda    1\nBo    22</pre>",
		},
		"a table wider than a phone": {
			"| Name | What it is good for | Price |\n|--|--|--|\n| **Ada** | [grinding](https://x.org) very much grain indeed | 1 |\n| Bo | | 22 |",
			"<b>Ada</b>\nWhat it is good for: <a href=\"https://x.org\">grinding</a> very much grain indeed\nPrice: 1\n\n<b>Bo</b>\nPrice: 22",
		},
		"links in a narrow table": {
			"| Name | Page |\n|--|--|\n| Ada | [docs](https://x.org/a) |\n| Bo | [docs](https://x.org/b) |",
			"<b>Ada</b>\nPage: <a href=\"https://x.org/a\">docs</a>\n\n<b>Bo</b>\nPage: <a href=\"https://x.org/b\">docs</a>",
		},
		"addresses in a narrow table": {
			"| Name | Page |\n|--|--|\n| Ada | [https://x.org](https://x.org) |",
			"<pre>Name  Page\n----  -------------\nAda   https://x.org</pre>",
		},
		"formulas":                {`\(a_1\) and $a*b*c$ or \[x_1 * y_1\], *so*`, `\(a_1\) and $a*b*c$ or \[x_1 * y_1\], <i>so</i>`},
		"spaces of TeX":           {`2\,3 **a\;b** \_c\_ C:\, Hello\!`, `2\,3 <b>a\;b</b> _c_ C:\, Hello!`},
		"formula over lines":      {"So:\n\\[\na_1 = b\n+ c *d*\n\\]\n*end*", "So:\n\n\\[\na_1 = b\n+ c *d*\n\\]\n\n<i>end</i>"},
		"formula in a paragraph":  {"see $$a_1 *\nb*$$ there", "see $$a_1 *\nb*$$ there"},
		"dollars are no formula":  {"$5 *and* $10, $ *x*, \\$a*b*$", "$5 <i>and</i> $10, $ <i>x</i>, $a<i>b</i>$"},
		"unclosed formula":        {"\\(*a* and $*b*", "(<i>a</i> and $<i>b</i>"},
		"formula marks in code":   {"`$a*b$` *c*", "<code>$a*b$</code> <i>c</i>"},
		"wide letters in a table": {"|a|b|\n|-|-|\n|日本|x|\n|c|y|", "<pre>a     b\n----  -\n日本  x\nc     y</pre>"},
		"backslashes":             {`\*not\* a \_word\_ &amp; \&amp;`, "*not* a _word_ &amp; &amp;amp;"},
		"other HTML is text":      {"<div>a</div>\n\nb <span>c</span>", "&lt;div&gt;a&lt;/div&gt;\n\nb &lt;span&gt;c&lt;/span&gt;"},
		"sources that nothing refers to": {
			"Sources:\n\n[1]: https://x.org/a\n[2]: https://x.org/b\n  \"b & c\"\n\n[3]: <https://x.org/c>",
			"Sources:\n\n[1]: https://x.org/a\n[2]: https://x.org/b\n  \"b &amp; c\"\n[3]: &lt;https://x.org/c&gt;",
		},
		"sources that a text refers to": {"See [1].\n\n[1]: https://x.org/a\n\n[//]: # (a comment)", "See <a href=\"https://x.org/a\">1</a>."},
		"line break":                    {"a<br>b  \nc", "a\nb\nc"},
		"lines stay lines":              {"*a*\nb", "<i>a</i>\nb"},
	} {
		t.Run(name, func(t *testing.T) {
			parts := newRenderer().parts(tt.markdown, 0)
			if len(parts) != 1 {
				t.Fatalf("%d parts", len(parts))
			}
			if diff := cmp.Diff(tt.html, parts[0].Text); diff != "" {
				t.Error(diff)
			}
			checkPart(t, parts[0].Text, parts[0].Plain)
		})
	}
}

// checkPart checks a part by the server's rules.
func checkPart(t *testing.T, html, plain string) {
	t.Helper()
	text, _, err := telegramtest.ParseHTML(html)
	if err != nil {
		t.Fatalf("the server can't parse %q: %v", html, err)
	}
	if text != plain {
		t.Fatalf("looks like %q, and %q in plain text", text, plain)
	}
	if n := len(utf16.Encode([]rune(text))); n > maxUnits || len(html) > maxSource {
		t.Fatalf("a part of %d units and %d bytes", n, len(html))
	}
	if !markdown.Visible(text) {
		t.Fatalf("a part shows nothing: %q", text)
	}
}

func TestEmptyReplyIsADash(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n\t ", "\x00\x01", "\u200b\u2060", "```\n```", "[](x)", "\u3164", "<!-- -->"[:0], "# ", "&nbsp;"} {
		parts := newRenderer().parts(plaintext.Clean(text), 0)
		if len(parts) != 1 {
			t.Fatalf("%q has %d parts", text, len(parts))
		}
		checkPart(t, parts[0].Text, parts[0].Plain)
	}
}

func TestCleanRemovesCharactersThatTelegramRefuses(t *testing.T) {
	t.Parallel()
	got := plaintext.Clean("a\x00b\xffc\r\nd\x1b[31me\tf\u0085\u202eg")
	if diff := cmp.Diff("ab\uFFFDc\nd[31me\tf\u202eg", got); diff != "" {
		t.Fatal(diff)
	}
}

func TestLongCodeIsClosedAndOpenedAgain(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&code, "    line %d <&>\n", i)
	}
	parts := newRenderer().parts("Here it is:\n\n```python\n"+code.String()+"```\n\nThat was it.", 0)
	if len(parts) < 4 {
		t.Fatalf("%d parts", len(parts))
	}
	var plain []string
	for i, p := range parts {
		checkPart(t, p.Text, p.Plain)
		if p.Index != i {
			t.Errorf("part %d has the index %d", i, p.Index)
		}
		if strings.Contains(p.Plain, "line") && strings.Count(p.Text, `<pre><code class="language-python">    line`) != 1 {
			t.Errorf("part %d does not begin its code on a line of its own: %.80q", i, p.Text)
		}
		plain = append(plain, p.Plain)
	}
	if diff := cmp.Diff("Here it is:\n\n"+code.String()+"\nThat was it.", strings.Join(plain, "\n")); diff != "" {
		t.Errorf("text changed: %s", diff)
	}
}

func TestPartsOfALongTextKeepItsStyle(t *testing.T) {
	t.Parallel()
	parts := newRenderer().parts("**"+strings.Repeat("word & ", 2000)+"end**", 0)
	for _, p := range parts {
		checkPart(t, p.Text, p.Plain)
		if !strings.HasPrefix(p.Text, "<b>") || !strings.HasSuffix(p.Text, "</b>") {
			t.Fatalf("a part is not bold: %.20q…", p.Text)
		}
	}
}

// Telegram drops the styles and links of a message beyond the hundredth, and refuses a message with very long ones: readers would get a list of sources without its addresses, commands without their look, or nothing.
func TestManyStylesAreSeveralMessages(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"many links": strings.Repeat("- [a page](https://x.org/a) and **more**\n", 150) + strings.Repeat("*style* ", 150),
		"long links": strings.Repeat("- [a page](https://x.org/"+strings.Repeat("a", 900)+")\n", 30),
		"very long":  strings.Repeat("[a](https://x.org/"+strings.Repeat("a", 1990)+") ", 30),
		"many words": strings.Repeat("- `code` and **more**\n", 100),
		"many codes": strings.Repeat("```go\nx\n```\n", 120),
	} {
		t.Run(name, func(t *testing.T) {
			parts := newRenderer().parts(source, 0)
			links := 0
			for _, p := range parts {
				checkPart(t, p.Text, p.Plain)
				_, entities, err := telegramtest.ParseHTML(p.Text)
				if err != nil || len(entities) > 100 || len(p.Text)-len(p.Plain) > 9000 {
					t.Errorf("a part has %d entities in %d bytes: %v", len(entities), len(p.Text), err)
				}
				for _, e := range entities {
					if e.Type == "text_link" {
						links++
					}
				}
			}
			if want := strings.Count(source, "]("); links != want || len(parts) > 30 {
				t.Errorf("%d links of %d in %d parts", links, want, len(parts))
			}
		})
	}
}

func TestLengthLimitCountsUTF16(t *testing.T) {
	t.Parallel()
	parts := newRenderer().parts(strings.Repeat("😀", 2048)+"😀", 0)
	if len(parts) != 2 || parts[0].Plain != strings.Repeat("😀", 2048) {
		t.Fatalf("%d parts, the first of %d bytes", len(parts), len(parts[0].Plain))
	}
}

func TestHostileMarkdownIsRendered(t *testing.T) {
	t.Parallel()
	const size = 1 << 18
	for name, unit := range map[string]string{
		"quotes": ">", "quotes apart": "> ", "lists in lists": "- 1. ", "lines of quotes": strings.Repeat(">", 30) + "a\n", "brackets": "[", "images": "![", "stars": "*a ", "underscores": "_", "backticks": "`",
		"tags": "<u>", "lists": "- ", "entities": "&#60;", "fences": "```\n", "emphasis": "**a** ", "lines": "\n",
		"links": "[a](https://example.org/?a=b&c=d) ", "table": "|a|b|\n|-|-|\n", "amps": "&", "deep lists": "* a\n   ",
		"letters": "x", "bytes": "\xff\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range newRenderer().parts(plaintext.Clean(strings.Repeat(unit, size/len(unit))), 0) {
				checkPart(t, p.Text, p.Plain)
			}
		})
	}
}

// Texts whose parsing would take a minute are sent as they were written.
func TestCostlyMarkdownShowsAsItIs(t *testing.T) {
	t.Parallel()
	for name, hostile := range map[string]string{
		"quotes": strings.Repeat("> ", 1000), "links": strings.Repeat("[a](", 2000),
		"table": strings.Repeat("a|", 1000) + "\n" + strings.Repeat("-|", 1000) + "\n" + strings.Repeat("b|\n", 200),
	} {
		source := hostile + " **end**"
		if got := newRenderer().render(source); got.text != source {
			t.Errorf("%s: the text is rendered", name)
		}
	}
}

func FuzzHTML(f *testing.F) {
	for _, seed := range []string{
		"**a *b* `c`** [d](https://e.f)", "> ```go\n> x\n> ```", "|a|b|\n|-|:-:|\n|`c`|**d**|", "- [x] a\n  1. b",
		"<u>a **b</u> c** <br> </b>", "&lt;b&gt; &#0; &#xD800; \\<", "![a[b](c)](http://d)", "# a\n===\n\n\tcode", "\xff\x00\u200b",
		"[a](<http://b/\">)", "```" + strings.Repeat("x\n", 3000),
	} {
		f.Add(seed, 1)
		f.Add(seed, 300)
	}
	r := newRenderer()
	f.Fuzz(func(t *testing.T, source string, times int) {
		source = strings.Repeat(source, max(1, times%400))
		if len(source) > 1<<17 {
			t.Skip("long enough")
		}
		for _, p := range r.parts(plaintext.Clean(source), 0) {
			checkPart(t, p.Text, p.Plain)
		}
	})
}

func BenchmarkParts(b *testing.B) {
	for name, text := range map[string]string{
		"short plain":  "Certainly! The answer to your question is forty-two.",
		"short markup": "Certainly! The answer is **42**, see `deep.thought()`.",
		"long markup":  strings.Repeat("## Title\n\nSome *text* with `code` and [links](https://example.org).\n\n- a\n- b\n\n```go\nx := 1\n```\n\n", 40),
	} {
		b.Run(name, func(b *testing.B) {
			r := newRenderer()
			b.ReportAllocs()
			for b.Loop() {
				r.parts(plaintext.Clean(text), 0)
			}
		})
	}
}
