package markup

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	gtext "github.com/yuin/goldmark/text"
)

func newGFM() *Parser { return NewParser(goldmark.New(goldmark.WithExtensions(extension.GFM))) }

// fill repeats a unit up to a size.
func fill(before, unit string, size int) string {
	return before + strings.Repeat(unit, size/len(unit))
}

// costly returns texts of a size that goldmark parses in more than linear time, mostly in quadratic time.
func costly(size int) map[string]string {
	const table = "a|b\n-|-\n|"
	half := size / 2
	wide := strings.Repeat("a|", size/8) + "\n" + strings.Repeat("-|", size/8) + "\n"
	return map[string]string{
		"tildes in a cell":         fill(table, "~", size),
		"tildes":                   fill("a", "~", size),
		"quotes":                   fill("", ">", size),
		"quotes apart":             fill("", "> ", size),
		"lists":                    fill("", "+ ", size),
		"numbers":                  fill("", "1. ", size),
		"quotes and lists":         fill("", "> + ", size),
		"addresses that are open":  fill("", "[a](", size),
		"titles that are open":     fill("", `[a]("`, size),
		"open brackets":            fill("", "![a](<b ", size),
		"references that are open": fill("[a]: b\n\n", "[a](", size),
		"brackets around much":     fill("", "[", half/2) + fill("", "*a* ", half) + fill("", "]", half/2),
		"stars and lines":          fill("", "*a ", half) + fill("", "a_ ", half),
		"stars that end nothing":   fill("", "a* _ a-", size),
		"one star and three":       fill("", "**a_b***a", size),
		"stars within a link":      fill("*a", " _ ", half) + "[x*](u)" + fill("", "y~ ", half),
		"code that is open":        backticks(size),
		"definitions":              fill("", "[a]: b\n", size),
		"definitions behind tabs":  fill("> ", "[a]: b\n\t", size),
		"a wide table":             wide + strings.Repeat("b|\n", size/8),
		"pipes in code":            fill("a\n-\n", "`\\|`\n", size),
		"addresses without end":    fill("", "~www.1", size),
	}
}

// backticks returns runs of backticks of different lengths.
func backticks(size int) string {
	var b strings.Builder
	for n := 1; b.Len() < size; n++ {
		b.WriteString(strings.Repeat("`", n) + "a")
	}
	return b.String()
}

func TestCostlyMarkdownIsGivenUp(t *testing.T) {
	t.Parallel()
	p := newGFM()
	for name, text := range costly(128 << 10) {
		if _, steps, err := p.parse([]byte(text)); !errors.Is(err, ErrCostly) {
			t.Errorf("%s: %v after %d steps for %d bytes", name, err, steps, len(text))
		}
	}
}

// Long ordinary answers are parsed.
func TestOrdinaryMarkdownIsRead(t *testing.T) {
	t.Parallel()
	p := newGFM()
	for name, text := range map[string]string{
		"nested lists":     "- a\n  - b\n    - c\n      1. d\n         > > e\n",
		"a long list":      fill("", "- an [entry](https://example.org/page) of many\n", 250_000),
		"links apart":      fill("", "see [this](https://example.org/page)\n\n", 250_000),
		"links in a line":  fill("", "see [this](https://example.org/page) and ", 40_000),
		"a long table":     fill("| a | b |\n|---|---|\n", "| **a** | `b` | c | d |\n", 250_000),
		"tables apart":     fill("", "|a|b|\n|-|-|\n|c|d|\n\n", 250_000),
		"prose with rules": fill("", "text - with > signs 1. and * stars\n----------\n", 250_000),
		"lines and a pipe": fill("", "ls | wc\n", 250_000),
		"code":             "```go\n" + fill("", "x := a[i](*p) // ~ < > _ * `\n", 250_000) + "```\n",
		"one line":         fill("", "some *words* with `code` in it, and **more**; ", 60_000),
		"html":             fill("", "a <b>word</b> and <i>another</i>\n", 250_000),
		"addresses":        fill("", "https://example.org/a?b=c and www.example.org\n", 250_000),
		"definitions":      fill("", "[a]: https://example.org/page \"A title\"\n", 40_000),
		"arrays":           fill("", "a[i][j] = f(b[k](x), c)\n", 30_000),
		"escaped pipes":    fill("|a|\n|-|\n", "| `a \\| b` |\n", 30_000),
	} {
		if _, steps, err := p.parse([]byte(text)); err != nil {
			t.Errorf("%s: %v after %d steps for %d bytes", name, err, steps, len(text))
		}
	}
}

// Whatever is repeated, a text is parsed or given up.
func TestRepetitiveMarkdownIsReadOrGivenUp(t *testing.T) {
	t.Parallel()
	fragments := []string{
		"*", "_", "~", "[", "]", "(", ")", "<", ">", "!", "`", "\\", "|", `"`, "'", ":", "#", "-", "+", "=", ".", "1", " ", "\n", "a", "&", ";", "@",
		"[a](", "![", "](", "][", "<a ", "<b c=\"", "</b>", "<!--", "<?", "<![CDATA[", "https://", "www.", "a@b", "&amp;", "\\|", "[a]: b\n", "**", "***a", "~~",
		"\n\n", "  \n", "    ", "\t", "\r\n", "\n- ", "\n> ", "\n# ", "\n```\n", "\n---\n", "\n|a|\n|-|\n", "\n1. ", "[x] ", "é",
	}
	before := []string{"", "|", "a|b\n-|-\n|", "> ", "- ", "# ", "[a]: b \"", "> > > "}
	p := newGFM()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		unit := ""
		for range 1 + random.IntN(4) {
			unit += fragments[random.IntN(len(fragments))]
		}
		text := []byte(fill(before[random.IntN(len(before))], unit, 8<<10))
		if _, err := p.Parse(text); err != nil && !errors.Is(err, ErrCostly) {
			t.Errorf("%.20q and then %q: %v", text, unit, err)
		}
	}
}

// Neither the meter nor anything else changes the result of parsing, but for definitions that nothing
// refers to.
func FuzzBoundedParserReadsTheSame(f *testing.F) {
	for name, text := range costly(64) {
		f.Add(text)
		f.Add(name + "\n\n" + text)
	}
	plain, bounded := goldmark.New(goldmark.WithExtensions(extension.GFM)), goldmark.New(goldmark.WithExtensions(extension.GFM))
	p := NewParser(bounded)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 500 {
			return
		}
		doc, err := p.Parse([]byte(text))
		if err != nil {
			if !errors.Is(err, ErrCostly) {
				t.Skip("goldmark itself fails over it: ", err)
			}
			return // nested too deep
		}
		var want, got bytes.Buffer
		unbounded := plain.Parser().Parse(gtext.NewReader([]byte(text)))
		showUnused(unbounded, []byte(text))
		if err := errors.Join(plain.Renderer().Render(&want, []byte(text), unbounded), bounded.Renderer().Render(&got, []byte(text), doc)); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("%q is read as %s, want %s", text, got.String(), want.String())
		}
	})
}

func TestParserIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	p := newGFM()
	errs := make(chan error)
	for n := range 8 {
		go func() {
			text := fill("", fmt.Sprintf("*%d* ", n), 1000)
			if n%2 == 0 {
				text = fill("", ">", 100_000)
			}
			_, err := p.Parse([]byte(text))
			if errors.Is(err, ErrCostly) == (n%2 == 0) {
				err = nil
			} else {
				err = fmt.Errorf("%d: %v", n, err)
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
