package conversation

import "strings"

// SplitFiles returns what a person wrote in a message, without the lines about its
// files, and for each of m.Files the text that was read of it, "" for one that is
// only named. If the content does not have the lines, files is empty.
func (m Message) SplitFiles() (said string, files []string) {
	var b strings.Builder
	at := 0
	for _, f := range m.Files {
		if !f.isWithin(m.Content, at) {
			return m.Content, nil
		}
		b.WriteString(strings.TrimSuffix(m.Content[at:f.Lines.From], "\n"))
		files = append(files, m.Content[f.Body.From:f.Body.To])
		at = f.Lines.To
	}
	b.WriteString(m.Content[at:])
	return b.String(), files
}

// isWithin reports whether the extents of a file are parts of content behind at.
func (f File) isWithin(content string, at int) bool {
	if f.Lines.From < at || f.Lines.To < f.Lines.From || f.Lines.To > len(content) {
		return false
	}
	return f.Body == (Extent{}) || f.Lines.From <= f.Body.From && f.Body.From <= f.Body.To && f.Body.To <= f.Lines.To
}
