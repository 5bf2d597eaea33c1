package markup

import (
	"strings"
	"testing"
)

func TestPlainSaysWhatMarkdownSays(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"nothing to do": "nothing to do",
		"**Feta** is a *cheese*, ~~not~~ `code_it`":                     "Feta is a cheese, not code_it",
		"See [the page](https://a.example/feta) and ![a cat](cat.png).": "See the page and a cat.",
		"# Title\n\n- one\n- two\n\n> said":                             "Title\none\ntwo\nsaid",
		"First\n\n```go\nx := a * b * c\n```\nthen":                     "First\nx := a * b * c\nthen",
		`It is \(a^2\) and $\frac{1}{2}$, 2 \* 3 &amp; 4`:               `It is \(a^2\) and $\frac{1}{2}$, 2 * 3 & 4`,
		`2\,3, a\;b, f\colon X\:Y, \int\!\!f, C:\, and x\\, y`:          `2\,3, a\;b, f\colon X\:Y, \int\!\!f, C:\, and x\, y`,
		`Hello\! \*no\* \_list\_, 3\. \![no picture](x.png) 50\%`:       `Hello! *no* _list_, 3. !no picture 50%`,
		"$$\na_1 * b_2 * c\n$$":                                         "$$\na_1 * b_2 * c\n$$",
		"| a | b |\n|---|---|\n| **c** | d |":                           "a\nb\nc\nd",
		"snake_case_name and 2 * 3 * 4":                                 "snake_case_name and 2 * 3 * 4",
		"https://a.example/x_y_z":                                       "https://a.example/x_y_z",
	} {
		got := Plain(source)
		for strings.Contains(got, "\n\n") {
			got = strings.ReplaceAll(got, "\n\n", "\n")
		}
		if got != want {
			t.Errorf("%q says %q, want %q", source, got, want)
		}
	}
}

func TestPlainLeavesCostlyMarkdownAsItIs(t *testing.T) {
	t.Parallel()
	if costly := strings.Repeat("> ", 500) + "deep"; Plain(costly) != costly {
		t.Error("it was changed")
	}
}
