package toolstate

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// arguments are those of a call, by name.
type arguments map[string]json.RawMessage

// argumentsOf parses a JSON object. Anything else has no arguments.
func argumentsOf(object string) arguments {
	var a arguments
	if json.Unmarshal([]byte(object), &a) != nil {
		return nil
	}
	return a
}

// text returns the first of the named arguments that is a text, or "".
func (a arguments) text(names ...string) string {
	for _, name := range names {
		var text string
		if json.Unmarshal(a[name], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// onlyLook reports whether a call of an editor that also reads files only reads one.
// https://docs.claude.com/en/docs/agents-and-tools/tool-use/text-editor-tool
func (a arguments) onlyLook() bool {
	return slices.Contains([]string{"view", "read", "list"}, a.text("command"))
}

// maxFiles is how many files of one call are noted.
const maxFiles = 20

// files returns the files that a call writes: the one that an argument names, else
// those of a patch.
func (a arguments) files() []string {
	if file := a.text("path", "file_path", "filepath", "filename", "file", "target_file", "destination", "notebook_path", "absolute_path"); file != "" {
		return []string{file}
	}
	return patchedFiles(a.text("input", "patch", "diff"))
}

// patchForm matches the lines of a patch that name a file which exists behind it, as
// apply_patch and unified diffs write them.
var patchForm = regexp.MustCompile(`(?m)^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ b/)([^\t\r\n]+)`)

func patchedFiles(patch string) (files []string) {
	for _, found := range patchForm.FindAllStringSubmatch(patch, maxFiles) {
		files = append(files, strings.TrimSpace(found[1]))
	}
	return files
}

// command returns the command that a call runs. A list of words, such as
// ["bash", "-lc", "ls"], is read as the script that it hands to a shell, or is joined.
func (a arguments) command() string {
	if command := a.text("command", "cmd", "script"); command != "" {
		return command
	}
	var words []string
	if json.Unmarshal(a["command"], &words) != nil && json.Unmarshal(a["cmd"], &words) != nil {
		return ""
	}
	if len(words) == 3 && (words[1] == "-c" || words[1] == "-lc") {
		return words[2]
	}
	return strings.Join(words, " ")
}
