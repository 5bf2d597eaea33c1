package window

import (
	"strings"
	"testing"

	"parley/markup"
)

// An open code block would turn the rest of the page into code.
func TestShortenedMessagesCloseTheirCodeBlocks(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("code\n", 200)
	for name, c := range map[string]struct{ text, end string }{
		"cut":                {"```go\n" + long + "```", " …\n```"},
		"tildes":             {"~~~\n" + long + "~~~", " …\n~~~"},
		"longer fence":       {"````\n```\n" + long, " …\n````"},
		"never closed":       {"so:\n```\ncode", "code\n```"},
		"closed":             {"```\ncode\n```", "code\n```"},
		"closed, then cut":   {"```\ncode\n```\n" + long, " …"},
		"backticks in words": {"the ``` sign", "the ``` sign"},
		"inline code":        {"```x``` is code", "```x``` is code"},
		"cut at the close":   {"```\n" + strings.Repeat("x", 692) + "\n```" + long, "``` …\n```"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Excerpt(c.text, 700)
			if !strings.HasSuffix(got, c.end) {
				t.Errorf("ends with %q, want %q", got[max(0, len(got)-20):], c.end)
			}
			if open := markup.OpenFence(got); open != "" {
				t.Errorf("leaves a block open: %q", open)
			}
		})
	}
}
