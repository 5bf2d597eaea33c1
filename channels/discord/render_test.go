package discord

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"parley/channels/markdown"
	"parley/plaintext"
)

func TestMarkdownThatDiscordKnowsIsUnchanged(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"looks":             "*a* _b_ **c** __d__ ~~e~~ ||f|| `g` ***h***",
		"headings":          "# a\n## b\n### c\n-# small",
		"lists":             "- a\n  - b\n* c\n1. d\n   more",
		"links":             "[a](https://example.org \"title\") <https://example.org> https://example.org/a_b",
		"quotes":            "> a\n> \n> b\n\n>>> the rest\nof it",
		"code":              "```go\n| a | b |\n|---|---|\n#### x\n---\n- [ ] y ![z](u)\n```",
		"code in a quote":   "> ```sh\n> ls\n> ```",
		"code in a list":    "- a\n  ```sh\n  ls\n  ```\n- b",
		"code after a mark": "- ```sh\n  ls\n  ```\n#hashtag ---",
		"code spans":        "`![a](b)` ``- [ ] ` ![c](d)``",
		"mentions":          "@everyone <@123> <@&4> <#5> <t:6:R> <:cat:7>",
		"HTML":              "<b>a</b><br>\n<details>b</details> &amp;",
		"math":              "$x_1 + y^2$\n$$\n\\sum_{i} |x_i|\n+ 1\n$$\n\\[ a | b \\]",
		"bars without rule": "a | b\nc | d",
		"no footnotes":      "a set [^abc] of letters",
		"pluses":            "1 ** 2 - - 3\n--\n-- x\n- - -a",
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(source, render(source)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMarkdownThatDiscordLacksIsReplaced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ markdown, want string }{
		"deep heading":         {"#### Title ##\ntext", "**Title**\ntext"},
		"bold deep heading":    {"##### **Title**", "**Title**"},
		"stars in a heading":   {"#### About `**kwargs`", "### About `**kwargs`"},
		"rules":                {"a\n\n---\n* * *\n___", "a\n\n———\n———\n———"},
		"tasks":                {"- [ ] a\n  - [x] b\n1. [X] c", "- ☐ a\n  - ☑ b\n1. ☑ c"},
		"image":                {"see ![a cat](https://x.org/c.png)!", "see [a cat](https://x.org/c.png)!"},
		"image without text":   {"![](https://x.org/c.png)", "[image](https://x.org/c.png)"},
		"image in a link":      {"[![build](https://x.org/b.svg)](https://x.org)", "[build](https://x.org)"},
		"image beside code":    {"`![a](b)` ![c](d)", "`![a](b)` [c](d)"},
		"footnotes":            {"so[^1] it is[^b], not [^c]\n\n[^1]: see\n[^b]: there", "so[1] it is[b], not [^c]\n\n[1]: see\n[b]: there"},
		"quote without spaces": {">a\n>\n>>b\n> > c", "> a\n> \n> > b\n> > c"},
		"waves":                {"~~~py\nx\n~~~", "```py\nx\n```"},
		"words after the mark": {"```py title=\"a b\"\nx\n```", "```py\nx\n```"},
		"no word at the mark":  {"```{.py}\nx\n```", "```\nx\n```"},
		"open code":            {"```py\nx", "```py\nx\n```"},
		"code ends with quote": {">```\n>x\ny", "> ```\n> x\n> ```\ny"},
		"marks in quoted code": {">```\n>>x\n>  >y\n>```", "> ```\n> >x\n>  >y\n> ```"},
		"code in code":         {"````md\n```\nx\n```\n````", "```md\n`\u200b`\u200b`\nx\n`\u200b`\u200b`\n```"},
		"table": {
			"Here:\n| Name | n |\n|:--|--:|\n| **Ada** | 1 |\n| `Bo` | 22 |\nAfter.",
			"Here:\n```\nName   n\n----  --\nAda    1\nBo    22\n```\nAfter.",
		},
		"wide letters in a table": {"|a|b|\n|-|-|\n|日本|x|\n|c|y|", "```\na     b\n----  -\n日本  x\nc     y\n```"},
		"table without edges":     {"a | b\n- | -\n1 | 2", "```\na  b\n-  -\n1  2\n```"},
		"table in a quote":        {"> |a|b|\n>|-|-|\n>|c|d|\n> e", "> ```\n> a  b\n> -  -\n> c  d\n> ```\n> e"},
		"bars and breaks in a cell": {
			"|a|b|\n|-|-|\n|x \\| y|2**3**4 one<br>two [l](u)|",
			"```\na      b\n-----  ----------------------\nx | y  2**3**4 one two [l](u)\n```",
		},
		"more cells than columns": {"|a|b|\n|-|-|\n|c|d|e|", "```\na  b\n-  -  -\nc  d  e\n```"},
		"code marks in a cell":    {"|a|b|\n|-|-|\n|c|\\```|", "```\na  b\n-  ----\nc  \\`\u200b`\u200b`\n```"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, render(tt.markdown)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzRender(f *testing.F) {
	for _, seed := range []string{
		"# a\n#### b **c**\n\n---\n- [x] d ![e](f) [![g](h)](i)", "|a|b|\n|-|:-:|\n|`c`|**d**|", "> ```go\n> x\nafter",
		"````md\n```\nx", "a[^1]\n\n[^1]: b", ">>> a\n>>b", "`` ` ``` `` `![a](", "- ```\n  x\n  ```\n> |a|\n> |-|", "~~~ `\n~~~",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		source = plaintext.Clean(source)
		rendered := render(source)
		if missing := missingText(letters(withoutInfo(source)), letters(rendered)); missing != "" {
			t.Fatalf("lost from %q, which became %q: %q", source, rendered, missing)
		}
		for _, fence := range markdown.Fences(rendered) {
			if fence.Closing == fence.To {
				t.Fatalf("an open code block in %q, of %q", rendered, source)
			}
		}
	})
}

// withoutInfo drops what rendering drops: the info strings of code blocks, the addresses of images in
// links, the marks of tasks, and "<br>".
func withoutInfo(source string) string {
	var b strings.Builder
	pos := 0
	for _, f := range markdown.Fences(source) {
		b.WriteString(source[pos:f.From] + "\n" + source[min(f.Body, f.To):f.To])
		pos = f.To
	}
	text := linkedImage.ReplaceAllString(b.String()+source[pos:], "[$1](")
	text = strings.NewReplacer("[x]", "[]", "[X]", "[]").Replace(text)
	return lineBreak.ReplaceAllString(text, " ")
}

func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

// missingText returns the rest of text, without white space, from the first character on that is not
// in whole in the same order.
func missingText(text, whole string) string {
	rest := whole
	for i, r := range text {
		if unicode.IsSpace(r) {
			continue
		}
		at := strings.IndexRune(rest, r)
		if at < 0 {
			return text[i:]
		}
		rest = rest[at+len(string(r)):]
	}
	return ""
}
