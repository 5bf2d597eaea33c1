package discord

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"parley/channels"
	"parley/channels/markdown"
	"parley/conversation"
	"parley/plaintext"
)

func replyParts(text string, fileOver int) []channels.Part {
	return parts(conversation.Delivery{Text: text}, fileOver)
}

// checkParts checks parts by Discord's rules.
func checkParts(t *testing.T, parts []channels.Part) {
	t.Helper()
	if len(parts) == 0 {
		t.Fatal("no parts")
	}
	for i, p := range parts {
		if p.Index != i {
			t.Fatalf("part %d has the index %d", i, p.Index)
		}
		if n := markdown.Units(markdown.UTF16).Count(p.Text); n > maxUnits {
			t.Fatalf("part %d has %d units", i, n)
		}
		if !markdown.Visible(p.Text) || strings.TrimSpace(p.Text) == "" {
			t.Fatalf("part %d shows nothing: %q", i, p.Text)
		}
		if !utf8.ValidString(p.Text) {
			t.Fatalf("part %d is not UTF-8: %q", i, p.Text)
		}
	}
}

func TestEmptyReplyIsADash(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n\t ", "\x00\x01", "\u200b\u2060", "\u3164", "\n\n\n" + strings.Repeat(" ", 5000)} {
		parts := replyParts(text, 5)
		checkParts(t, parts)
		if len(parts) != 1 || parts[0].Text != "—" {
			t.Errorf("%q became %d parts, the first %q", text, len(parts), parts[0].Text)
		}
	}
}

func TestLengthLimitHoldsInUTF16AndInCodePoints(t *testing.T) {
	t.Parallel()
	parts := replyParts(strings.Repeat("😀", 1000)+"😀", 0)
	if len(parts) != 2 || parts[0].Text != strings.Repeat("😀", 1000) {
		t.Fatalf("%d parts, the first of %d bytes", len(parts), len(parts[0].Text))
	}
	if parts := replyParts(strings.Repeat("é", 2000), 0); len(parts) != 1 {
		t.Fatalf("%d parts of a text that fits", len(parts))
	}
}

func TestLongCodeIsClosedAndOpenedAgain(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for i := range 300 {
		fmt.Fprintf(&code, "    line %d <&>\n", i)
	}
	parts := replyParts("Here it is:\n\n````python title=x\n"+code.String()+"````\n\nThat was it.", 0)
	checkParts(t, parts)
	if len(parts) < 3 {
		t.Fatalf("%d parts", len(parts))
	}
	whole := ""
	for i, p := range parts {
		inner, opened := strings.CutPrefix(p.Text, "```python\n")
		if i > 0 && !opened || strings.Count(p.Text, "```") != 2 {
			t.Errorf("part %d does not open and close its code: %.60q", i, p.Text)
		}
		whole += strings.TrimSuffix(inner, "```")
	}
	if want := "Here it is:\n\n```python\n" + code.String() + "```\n\nThat was it."; whole != want {
		t.Errorf("text changed: %s", cmp.Diff(want, whole))
	}
}

func TestLongQuotesStayQuotes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"one line":         "> " + strings.Repeat("word ", 1000),
		"many lines":       strings.Repeat("> a line of it\n", 400),
		"code":             "> ```go\n" + strings.Repeat("> x := 1\n", 400) + "> ```",
		"one line of code": "> ```\n> " + strings.Repeat("x", 5000) + "\n> ```",
	} {
		t.Run(name, func(t *testing.T) {
			parts := replyParts(text, 0)
			checkParts(t, parts)
			if len(parts) < 2 {
				t.Fatalf("%d parts", len(parts))
			}
			for i, p := range parts {
				for _, line := range strings.Split(p.Text, "\n") {
					if !strings.HasPrefix(line, "> ") {
						t.Fatalf("part %d has a line outside of the quote: %.60q", i, line)
					}
				}
				if n := strings.Count(p.Text, "```"); strings.Contains(text, "```") && n != 2 {
					t.Errorf("part %d has %d marks of code", i, n)
				}
			}
		})
	}
}

func TestAHeadingStaysWithItsText(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("word ", 380) + "\n\n## Title\n\n" + strings.Repeat("more ", 100)
	parts := replyParts(text, 0)
	checkParts(t, parts)
	if len(parts) != 2 || !strings.HasPrefix(parts[1].Text, "## Title") {
		t.Fatalf("the second part begins with %.20q", parts[len(parts)-1].Text)
	}
}

func TestAVeryLongReplyIsAFile(t *testing.T) {
	t.Parallel()
	text := "# Report\n\n" + strings.Repeat("Some sentence of it. ", 1000) + "\n\n|a|b|\n|-|-|\n|c|d|"
	parts := replyParts(text, 5)
	checkParts(t, parts)
	if len(parts) != 1 || parts[0].File == nil {
		t.Fatalf("%d parts, without a file", len(parts))
	}
	file := parts[0].File
	if file.Name != "reply.md" || string(file.Data) != text {
		t.Errorf("the file %q does not hold the markdown: %.60q", file.Name, file.Data)
	}
	if !strings.HasPrefix(parts[0].Text, "# Report\n\nSome sentence") || !strings.Contains(parts[0].Text, "in the file reply.md") {
		t.Errorf("the text shows %.60q … %q", parts[0].Text, parts[0].Text[len(parts[0].Text)-80:])
	}
	for _, fileOver := range []int{0, 100} {
		if parts := replyParts(text, fileOver); len(parts) < 10 || parts[0].File != nil {
			t.Errorf("with file_over %d there are %d parts", fileOver, len(parts))
		}
	}
}

func TestFiveMessagesAreNoFile(t *testing.T) {
	t.Parallel()
	if parts := replyParts(strings.Repeat("x", 5*maxUnits), 5); len(parts) != 5 || parts[0].File != nil {
		t.Fatalf("%d parts", len(parts))
	}
	if parts := replyParts(strings.Repeat("x", 5*maxUnits+1), 5); len(parts) != 1 || parts[0].File == nil {
		t.Fatalf("%d parts, where a file was due", len(parts))
	}
}

func TestRepetitiveReplyOfAMebibyteIsSplit(t *testing.T) {
	t.Parallel()
	sendRepeated(t, 1<<20, map[string]string{
		"letters": "x", "lines": "\n", "emoji": "👨‍👩‍👧", "combining": "\u0301", "bytes": "\xff\x00", "backticks": "`", "quotes": ">", "quotes apart": "> ",
		"brackets": "[", "stars": "*", "bars": "|", "dashes": "-", "dashes apart": "- ", "hashes": "#", "numbers": "1. ", "backslashes": "\\",
	})
}

func TestHostileMarkdownIsSplit(t *testing.T) {
	t.Parallel()
	sendRepeated(t, 1<<18, map[string]string{
		"spaces": "x" + strings.Repeat(" ", 1000), "backticks apart": "` `` ", "fences": "```\n", "waves": "~~~\n", "quoted lines": "> a\n",
		"fences in quotes": "> ```\n", "images": "![", "linked images": "[![", "half images": "[![](", "notes": "[^1]: [^", "bold": "**a** ",
		"headings": "#### a\n", "rules": "---\n", "tasks": "- [ ] a\n", "table": "|a|b|\n|-|-|\n", "columns": "|\n|-", "spoilers": "||",
		"wide cells": "|a|b|\n|-|-|\n" + strings.Repeat("|`x` **y** ", 200) + "\n",
	})
}

// sendRepeated checks the parts of replies of size bytes, each of which repeats a text.
func sendRepeated(t *testing.T, size int, units map[string]string) {
	for name, unit := range units {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkParts(t, replyParts(strings.Repeat(unit, size/len(unit)), 0))
		})
	}
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"", "plain", "a\n\nb ", "```go\nx\n```", "````\n```\n````\n", "👨‍👩‍👧", "~~~ `\n", "\xff\x00```\n```\n```", "> ```\n> x ", "> > word ",
		"|a|b|\n|-|-|\n|c|d|\n\n", "# a\n\n", "- a\n  - [ ] b\n", "e\u0301", "\u200b", ">>> a\n", "- ```\n  y",
	} {
		f.Add(seed, 1)
		f.Add(seed, 900)
	}
	f.Fuzz(func(t *testing.T, source string, times int) {
		source = strings.Repeat(source, max(1, times%1000))
		if len(source) > 1<<16 {
			t.Skip("too long")
		}
		parts := replyParts(source, 0)
		checkParts(t, parts)
		if !reflect.DeepEqual(parts, replyParts(source, 0)) {
			t.Fatalf("the same reply gave other parts: %q", source)
		}
		var whole strings.Builder
		for _, p := range parts {
			whole.WriteString(p.Text)
		}
		rendered := render(plaintext.Clean(source))
		if missing := missingText(shown(rendered), shown(whole.String())); missing != "" {
			t.Fatalf("lost from %q: %q", rendered, missing)
		}
		checkParts(t, replyParts(source, 5))
	})
}

// shown drops characters that are invisible by themselves.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		if markdown.Visible(string(r)) {
			return r
		}
		return -1
	}, text)
}

func BenchmarkParts(b *testing.B) {
	for name, text := range map[string]string{
		"short plain":  "Certainly! The answer to your question is forty-two.",
		"short markup": "Certainly! The answer is **42**, see `deep.thought()`.",
		"long markup":  strings.Repeat("## Title\n\nSome *text* with `code` and [links](https://example.org).\n\n- a\n- b\n\n```go\nx := 1\n```\n\n", 40),
		"table":        "|a|b|\n|-|-|\n" + strings.Repeat("| **Ada** | `1` |\n", 100),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				replyParts(text, 5)
			}
		})
	}
}

// A reply whose first parts were sent as messages, before file_over was set, continues with messages.
func TestReplyBegunAsMessagesIsNotContinuedAsAFile(t *testing.T) {
	t.Parallel()
	d := conversation.Delivery{Text: strings.Repeat("x", 8*maxUnits), Sent: []string{"1"}}
	if parts := parts(d, 5); len(parts) != 8 || parts[0].File != nil {
		t.Errorf("%d parts", len(parts))
	}
}
