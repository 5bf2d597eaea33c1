package web

import "strings"

// A text file that came with a message is read into its text, between the lines
// "[file NAME]" and "[end of file NAME]"; of any other there is one line,
// "[file NAME, 2 KiB, not shown]". A page shows them beside the text.

// filesIn parts what somebody wrote from the files below it.
func filesIn(content string) (text string, files []enclosed) {
	var said []string
	lines := strings.Split(content, "\n")
	for i := 0; i < len(lines); i++ {
		name, is := fileLine(lines[i])
		if !is {
			said = append(said, lines[i])
			continue
		}
		end := endOf(lines[i+1:], name)
		if end < 0 {
			name, _, _ = strings.Cut(name, ", ")
			files = append(files, enclosed{Name: name})
			continue
		}
		files = append(files, enclosed{Name: name, Text: strings.Join(lines[i+1:i+1+end], "\n")})
		i += end + 1
	}
	return strings.Join(said, "\n"), files
}

func fileLine(line string) (name string, is bool) {
	line, begins := strings.CutPrefix(line, "[file ")
	name, ends := strings.CutSuffix(line, "]")
	return name, begins && ends
}

// endOf is the line that ends a file, -1 when there is none.
func endOf(lines []string, name string) int {
	for i, line := range lines {
		if line == "[end of file "+name+"]" {
			return i
		}
	}
	return -1
}
