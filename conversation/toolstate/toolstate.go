// Package toolstate reads from tool calls and their results what they add to the state
// of a conversation: files that were written, commands that failed, what was decided,
// and where the work takes place. It reads the messages of runs and those of
// transcripts that programs append or import.
package toolstate

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/conversation/metadata"
	"parley/conversation/state"
)

// Names are patterns of the names of tools, by what the tools do. In a pattern * stands
// for any number of characters; case does not matter.
type Names struct {
	Files     []string // tools that write files
	Shells    []string // tools that run commands
	Decisions []string // tools that record a decision
}

// BuiltinNames returns the names of common tools.
func BuiltinNames() Names {
	return Names{
		Files: []string{
			"*write_file", "*edit_file", "*create_file", "*create_or_update_file", "*append_file", "*append_to_file", "*write_to_file",
			"*save_file", "*move_file", "*rename_file", "*delete_file", "*replace_in_file", "*insert_edit_into_file", "*edit_block",
			"*str_replace*", "*search_replace", "*apply_patch", "*apply_diff", "*text_editor*", "write", "edit", "multiedit",
			"multi_edit", "notebookedit",
		},
		Shells: []string{
			"bash", "*_bash", "shell", "shell_*", "*_shell", "sh", "zsh", "powershell", "terminal", "*run_command", "*execute_command",
			"*exec_command", "*run_shell_command", "*run_terminal_cmd", "*run_in_terminal", "exec", "*.exec", "*_exec",
		},
		Decisions: []string{"*record_decision", "*log_decision", "*save_decision", "*add_decision", "*make_decision", "decide"},
	}
}

// Reader reads the events of messages. It is safe for concurrent use.
type Reader struct{ files, shells, decisions patterns }

// New returns a reader for tools of some names.
func New(names Names) *Reader {
	return &Reader{files: newPatterns(names.Files), shells: newPatterns(names.Shells), decisions: newPatterns(names.Decisions)}
}

// Events returns the events of a run's messages. A call has failed if its result is
// marked so, or if a command names an exit status other than 0.
func (r *Reader) Events(messages []conversation.Message) []state.Event {
	return r.read(messages, func(m *conversation.Message) string { return failureOf(m) })
}

// TranscriptEvents returns the events of messages that a program has made. Their
// results may say in their text alone that a call failed. Their metadata may name the
// model, the working directory and the repository.
func (r *Reader) TranscriptEvents(messages []conversation.Message) []state.Event {
	return r.read(messages, func(m *conversation.Message) string {
		if failure := failureOf(m); failure != "" {
			return failure
		}
		return errorIn(m.Content)
	})
}

func (r *Reader) read(messages []conversation.Message, failureOf func(*conversation.Message) string) []state.Event {
	var list []state.Event
	var calls []conversation.ToolCall
	for i := range messages {
		m := &messages[i]
		var events []state.Event
		if m.Role == conversation.RoleAssistant && !m.Internal {
			calls = m.ToolCalls
		}
		n := slices.IndexFunc(calls, func(call conversation.ToolCall) bool { return call.ID == m.ToolCallID })
		if m.Role == conversation.RoleTool && !m.Internal && n >= 0 {
			events = r.callEvents(calls[n], m.Content, failureOf(m))
		}
		for _, e := range append(metadataEvents(m.Metadata), events...) {
			e.Message = i
			list = append(list, e)
		}
	}
	return list
}

// callEvents returns the events of one call, given its result and how it failed.
func (r *Reader) callEvents(call conversation.ToolCall, result, failure string) []state.Event {
	if call.Name == RecordTool {
		return recordEvents(call.Arguments, failure)
	}
	var list []state.Event
	what, given := call.Name, argumentsOf(call.Arguments)
	isFile, isShell := r.files.match(call.Name), r.shells.match(call.Name)
	switch {
	case isFile && !given.onlyLook():
		files := given.files()
		what = strings.TrimSpace(call.Name + " " + strings.Join(files, " "))
		if failure == "" {
			list = append(list, touched(files)...)
		}
	case isShell:
		command := given.command()
		what = strings.TrimSpace("$ " + command)
		if status := exitStatus(result); failure == "" && status != 0 {
			failure = "exit status " + strconv.Itoa(status)
		}
		if failure == "" {
			list = append(list, commandEvents(command)...)
		}
	case r.decisions.match(call.Name) && failure == "":
		if decision := given.text("decision", "text", "title", "summary", "content"); decision != "" {
			list = append(list, state.Event{Kind: state.Decided, Text: decision})
		}
	}
	if isFile || isShell {
		list = append(list, placeEvents(given.text("cwd", "workdir", "working_directory", "workspace"), given.text("repository", "repo_url"))...)
	}
	if failure != "" {
		return append(list, state.Event{Kind: state.Failed, Text: what, Error: failure})
	}
	return append(list, state.Event{Kind: state.Succeeded, Text: what})
}

func touched(files []string) (list []state.Event) {
	for _, file := range files {
		list = append(list, state.Event{Kind: state.Touched, Text: file})
	}
	return list
}

// metadataEvents returns what the metadata of a message tells of the place of the work.
func metadataEvents(metadata metadata.Object) []state.Event {
	if metadata == "" {
		return nil
	}
	given := argumentsOf(string(metadata))
	list := placeEvents(given.text("cwd", "working_directory", "workspace"), given.text("repository", "repo_url"))
	if model := given.text("model"); model != "" {
		list = append(list, state.Event{Kind: state.Answered, Text: model})
	}
	return list
}

// placeEvents returns the events of a working directory and a repository, "" for none.
func placeEvents(directory, repository string) (list []state.Event) {
	if directory != "" {
		list = append(list, state.Event{Kind: state.Entered, Text: directory})
	}
	if repository != "" {
		list = append(list, state.Event{Kind: state.Cloned, Text: withoutPassword(repository)})
	}
	return list
}

// failureOf returns how a call failed whose result is marked as failed, in one line,
// or "" when it is not.
func failureOf(m *conversation.Message) string {
	if !m.Failed {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimPrefix(m.Content, "error: "), "\n")
	if strings.TrimSpace(line) == "" {
		return "failed"
	}
	return line
}

// errorIn returns the error that the text of a result begins with, or that it names as
// a JSON object, or "".
func errorIn(text string) string {
	text = strings.TrimSpace(text)
	if rest, found := cutPrefixFold(text, "error:"); found {
		line, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		return line
	}
	if !strings.HasPrefix(text, "{") {
		return ""
	}
	var object struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal([]byte(text), &object) != nil {
		return ""
	}
	var message string
	if json.Unmarshal(object.Error, &message) == nil {
		return message
	}
	return argumentsOf(string(object.Error)).text("message")
}

func cutPrefixFold(text, prefix string) (rest string, found bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return text, false
	}
	return text[len(prefix):], true
}
