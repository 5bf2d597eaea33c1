package conversation_test

import (
	"slices"
	"testing"

	"parley/conversation"
	"parley/conversation/media"
)

// A damaged or foreign row must not show other text than it has.
func TestSplitFilesTakesOnlyExtentsOfTheContent(t *testing.T) {
	t.Parallel()
	const content = "see\n[file a]\none\n[end of file a]\n[file b]"
	a := media.File{Name: "a", Lines: media.Extent{From: 4, To: 32}, Body: media.Extent{From: 13, To: 16}}
	b := media.File{Name: "b", Lines: media.Extent{From: 33, To: 41}}
	for name, tt := range map[string]struct {
		files []media.File
		said  string
		read  []string
	}{
		"none":            {nil, content, nil},
		"both":            {[]media.File{a, b}, "see", []string{"one", ""}},
		"the wrong order": {[]media.File{b, a}, content, nil},
		"behind the end":  {[]media.File{a, {Lines: media.Extent{From: 33, To: 400}}}, content, nil},
		"body outside":    {[]media.File{{Lines: a.Lines, Body: media.Extent{From: 0, To: 3}}}, content, nil},
		"negative":        {[]media.File{{Lines: media.Extent{From: -1, To: 2}}}, content, nil},
	} {
		m := conversation.Message{Content: content, Files: tt.files}
		if said, read := m.SplitFiles(); said != tt.said || !slices.Equal(read, tt.read) {
			t.Errorf("%s: said %q, files %q", name, said, read)
		}
	}
}
