package command

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandsWithArgumentsHaveOptions(t *testing.T) {
	t.Parallel()
	for _, c := range All() {
		if (c.Arguments != "") != (len(c.Options) > 0) && c.Name != "clear" {
			t.Errorf("/%s takes %q, and its options are %+v", c.Name, c.Arguments, c.Options)
		}
	}
}

func TestReadmeListsEveryCommandInOrder(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(/[^`]*)` \\|").FindAllStringSubmatch(string(readme), -1) {
		listed = append(listed, strings.ReplaceAll(row[1], `\|`, "|"))
	}
	for _, c := range All() {
		want = append(want, strings.TrimSpace("/"+c.Name+" "+c.Arguments))
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("the table of commands in README.md differs (-list +README):\n%s", diff)
	}
}
