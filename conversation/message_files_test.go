package conversation_test

import (
	"slices"
	"testing"

	"parley/conversation"
)

// A damaged or foreign row must not show other text than it has.
func TestSplitFilesTakesOnlyExtentsOfTheContent(t *testing.T) {
	t.Parallel()
	const content = "see\n[file a]\none\n[end of file a]\n[file b]"
	a := conversation.File{Name: "a", Lines: conversation.Extent{From: 4, To: 32}, Body: conversation.Extent{From: 13, To: 16}}
	b := conversation.File{Name: "b", Lines: conversation.Extent{From: 33, To: 41}}
	for name, tt := range map[string]struct {
		files []conversation.File
		said  string
		read  []string
	}{
		"none":            {nil, content, nil},
		"both":            {[]conversation.File{a, b}, "see", []string{"one", ""}},
		"the wrong order": {[]conversation.File{b, a}, content, nil},
		"behind the end":  {[]conversation.File{a, {Lines: conversation.Extent{From: 33, To: 400}}}, content, nil},
		"body outside":    {[]conversation.File{{Lines: a.Lines, Body: conversation.Extent{From: 0, To: 3}}}, content, nil},
		"negative":        {[]conversation.File{{Lines: conversation.Extent{From: -1, To: 2}}}, content, nil},
	} {
		m := conversation.Message{Content: content, Files: tt.files}
		if said, read := m.SplitFiles(); said != tt.said || !slices.Equal(read, tt.read) {
			t.Errorf("%s: said %q, files %q", name, said, read)
		}
	}
}
