package pages_test

import (
	"strings"
	"testing"
	"time"

	"parley/pages"
	"parley/pages/pagestest"
)

// No text of a model or a person becomes a script, loads something, or links to a dangerous address.
func TestMarkdownNeverBecomesScript(t *testing.T) {
	t.Parallel()
	hostile := pagestest.Hostile()
	hostile = append(hostile, strings.Join(hostile, "\n"), strings.Join(hostile, "\n\n"))
	for _, text := range hostile {
		rendered := string(pages.Markdown(text))
		for _, harm := range pagestest.Harm(rendered) {
			t.Errorf("%q became %s:\n%s", text, harm, rendered)
		}
		for _, harm := range pagestest.Harm(string(pages.Code(text, text))) {
			t.Errorf("code in %q became %s", text, harm)
		}
	}
}

// Harm, on which the tests of all pages rely, finds each kind of dangerous HTML.
func TestHarmFindsDangerousHTML(t *testing.T) {
	t.Parallel()
	for _, page := range []string{
		`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `<a href="javascript:alert(1)">x</a>`, `<p style="color:red">x</p>`,
		`<img src="https://evil.example/x">`, `<iframe src="/"></iframe>`, `<base href="/">`, `<a href="//evil.example">x</a>`, `<form action="https://evil.example"></form>`,
	} {
		if pagestest.Harm(page) == nil {
			t.Errorf("%s passes", page)
		}
	}
	if harm := pagestest.Harm(`<a href="https://go.dev">x</a><img src="/x.png"><script src="/x.js"></script>`); harm != nil {
		t.Errorf("harmless HTML does not pass: %v", harm)
	}
}

func TestMarkdownIsRenderedAsHTML(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"lines stay lines", "one\ntwo", "<p>one<br>\ntwo</p>\n"},
		{"a heading stands below the page's own", "# Big", "<h3>Big</h3>\n"},
		{"a link opens elsewhere and tells nothing", "[Go](https://go.dev)", `<p><a href="https://go.dev" target="_blank" rel="noopener noreferrer">Go</a></p>` + "\n"},
		{"an address is a link", "see https://go.dev.", `<p>see <a href="https://go.dev" target="_blank" rel="noopener noreferrer">https://go.dev</a>.</p>` + "\n"},
		{"a picture is a link", "![A cat](https://cats.example/1.png)", `<p><a href="https://cats.example/1.png" target="_blank" rel="noopener noreferrer">Picture: A cat</a></p>` + "\n"},
		{"HTML is shown", "a <b>c</b>", "<p>a &lt;b&gt;c&lt;/b&gt;</p>\n"},
		{"code knows its grammar by other names too", "```golang\nx := 1\n```", `<figure class="code"><figcaption><span>golang</span><button type="button" class="copy" hidden>Copy</button></figcaption><pre tabindex="0"><code data-grammar="go">x := 1` + "\n</code></pre></figure>\n"},
		{"a formula stays as it was written, for the script", `so \(a_1^2 \, b\) is`, `<p>so <span class="math" data-tex="a_1^2 \, b">\(a_1^2 \, b\)</span> is</p>` + "\n"},
		{"spaces of TeX keep their backslash outside of formulas", `2\,3 **a\;b** \_c\_ [C:\,](https://go.dev)`, `<p>2\,3 <strong>a\;b</strong> _c_ <a href="https://go.dev" target="_blank" rel="noopener noreferrer">C:\,</a></p>` + "\n"},
		{"a formula on lines of its own", "\\[\n\\frac{a}{b} < 1\n\\]", `<div class="math display" data-tex="\frac{a}{b} &lt; 1">\[` + "\n" + `\frac{a}{b} &lt; 1` + "\n" + `\]</div>` + "\n"},
		{"an environment", "\\begin{align*}\na &= b\n\\end{align*}", `<div class="math display" data-tex="\begin{align*}` + "\n" + `a &amp;= b` + "\n" + `\end{align*}">\begin{align*}` + "\n" + `a &amp;= b` + "\n" + `\end{align*}</div>` + "\n"},
		{"prices are no formula", "from $5 to $10", "<p>from $5 to $10</p>\n"},
		{"a command stays in one line", "`/history 2`, `a/b`", "<p><code class=\"command\">/history 2</code>, <code>a/b</code></p>\n"},
		{"a thought is folded", "<think>\nfirst\n</think>\n\nIt is *so*.", `<details class="thought"><summary>Thought</summary><div>first</div></details><p>It is <em>so</em>.</p>` + "\n"},
		{"and unfolded while it grows", "<think>a <b>", `<details class="thought" open><summary>Thinking …</summary><div>a &lt;b&gt;</div></details>`},
		{"nothing", " \n", ""},
	} {
		if got := string(pages.Markdown(tt.text)); got != tt.want {
			t.Errorf("%s: %q became\n%s, want\n%s", tt.name, tt.text, got, tt.want)
		}
	}
}

// While an answer is written, a page is sent the last block again, and not those
// before it.
func TestOnlyTheLastBlockChangesWhileATextGrows(t *testing.T) {
	t.Parallel()
	text := "First.\n\n- a\n- b\n\n```go\nx\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\nLast."
	whole := pages.Blocks(text)
	if len(whole) != 5 {
		t.Fatalf("%d blocks: %q", len(whole), whole)
	}
	for n := range len(text) {
		blocks := pages.Blocks(text[:n])
		for i := range len(blocks) - 1 {
			if blocks[i] != whole[i] {
				t.Errorf("after %q block %d is %q, and %q in the end", text[:n], i, blocks[i], whole[i])
			}
		}
	}
}

// A page counts the blocks of an answer by its elements.
func TestABlockIsOneElement(t *testing.T) {
	t.Parallel()
	for _, text := range append(pagestest.Hostile(), shown...) {
		for _, block := range pages.Blocks(text) {
			if n := pagestest.Elements(block); n != 1 {
				t.Errorf("%q is %d elements: %s", text, n, block)
			}
		}
	}
}

var shown = []string{"---", "1. a\n\n   b", "> a\n\n> b", "<div>\n\n</div>", "    code", "- [ ] a", "<!-- a\n\nb -->"}

// Texts that would take a parser too long are shown as they were written.
func TestCostlyTextsShowAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat(">", 10_000), strings.Repeat("<a&", 100_000)} {
		blocks := pages.Blocks(text)
		if len(blocks) != 1 || !strings.HasPrefix(blocks[0], `<div class="verbatim">`) {
			t.Errorf("%.20q became %d blocks, %.60q", text, len(blocks), blocks)
		}
	}
}

// A wait is told by what is left of it, and a wait that is over is no longer told as one.
func TestWaitBlockTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]string{
		-time.Minute:             `<p>Yours &lt;comes&gt; <time datetime="PT0S" data-form="left">now</time>.</p>`,
		300 * time.Millisecond:   `<p>Yours &lt;comes&gt; <time datetime="PT1S" data-form="left">in 1 second</time>.</p>`,
		24500 * time.Millisecond: `<p>Yours &lt;comes&gt; <time datetime="PT25S" data-form="left">in 25 seconds</time>.</p>`,
	} {
		if got := pages.WaitBlock("Yours <comes>", left); got != want {
			t.Errorf("%s: %s, want %s", left, got, want)
		}
	}
}
