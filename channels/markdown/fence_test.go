package markdown_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/markdown"
)

func TestFencesFindsTheCode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"none":                      {"a ``` b\n``\n", nil},
		"two":                       {"```\na\n```\n~~~ go\nb\n~~~", []string{"a\n", "b\n"}},
		"shorter marks are code":    {"````\n```\na\n```\n````", []string{"```\na\n```\n"}},
		"other marks are code":      {"```\n~~~\n```", []string{"~~~\n"}},
		"one line is a span":        {"```a```\nb", nil},
		"empty":                     {"```\n```", []string{""}},
		"open to the end":           {"a\n```go\nb", []string{"b"}},
		"in a list":                 {"1. - ```\n   a\n   ```\nb", []string{"   a\n"}},
		"in a quote":                {"> ```\n> a\n> ```\nb", []string{"> a\n"}},
		"ended by the quote":        {"> ```\n> a\nb\n```\nc\n```", []string{"> a", "c\n"}},
		"nothing before quote ends": {"> ```\nb", []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range markdown.Fences(tt.text) {
				got = append(got, tt.text[min(f.Body, f.Closing):f.Closing])
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
