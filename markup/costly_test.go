package markup_test

import (
	"strings"
	"testing"

	"parley/markup"
)

// What these texts are built of made a chat wait for seconds, or for minutes.
func TestCostlyMarkdownIsKnown(t *testing.T) {
	const size = 64 << 10
	for name, unit := range map[string]string{
		"quotes": ">", "quotes apart": "> ", "lists": "- ", "numbers": "1. ", "both": "> + ",
		"open links": "[a](", "open titles": `[a]("`, "open images": "![a](<b ",
	} {
		if !markup.Costly("text\n\n" + strings.Repeat(unit, size/len(unit))) {
			t.Errorf("%s are parsed", name)
		}
	}
	const columns = 1000
	wide := strings.Repeat("a|", columns) + "\n" + strings.Repeat("-|", columns) + "\n"
	if !markup.Costly(wide + strings.Repeat("b|\n", 100)) {
		t.Error("a wide table with short rows is parsed")
	}
}

// An answer that a person reads must not lose its looks for being long.
func TestOrdinaryMarkdownIsNotCostly(t *testing.T) {
	for name, text := range map[string]string{
		"nested lists":     "- a\n  - b\n    - c\n      1. d\n         > > e\n",
		"a long list":      strings.Repeat("- an [entry](https://example.org/page) of many\n", 900),
		"links apart":      strings.Repeat("see [this](https://example.org/page)\n\n", 5000),
		"a long table":     strings.Repeat("| a | b | c | d |\n", 5000),
		"tables apart":     strings.Repeat("|a|b|\n|-|-|\n|c|d|\n\n", 5000),
		"prose with rules": strings.Repeat("text - with > signs 1. and * stars\n----------\n", 2000),
		"lines and a pipe": strings.Repeat("ls | wc\n", 5000),
	} {
		if markup.Costly(text) {
			t.Errorf("%s is shown without its looks", name)
		}
	}
}
