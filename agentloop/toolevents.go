package agentloop

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/llm"
	"parley/tools"
)

// What happened in the tool rounds of a run, as far as it can be read from the
// calls and their results, for the session state.

// events reads the rounds of an answer.
func (l *loop) events(messages []window.Entry) []conversation.Event {
	var list []conversation.Event
	var calls []llm.ToolCall
	for _, m := range messages {
		if m.Role == "assistant" {
			calls = m.ToolCalls
			continue
		}
		i := slices.IndexFunc(calls, func(c llm.ToolCall) bool { return c.ID == m.ToolCallID })
		if m.Role == "tool" && i >= 0 {
			list = append(list, l.eventsOf(calls[i], m.Content)...)
		}
	}
	return list
}

// eventsOf reads one call.
func (l *loop) eventsOf(call llm.ToolCall, text string) []conversation.Event {
	var list []conversation.Event
	what, failure := call.Name, failureOf(text)
	switch {
	case call.Name == tools.SessionStateName:
		return recordOf(call.Arguments)
	case slices.Contains(l.deps.Config.FileTools, call.Name):
		file := argument(call.Arguments, "path", "file_path", "filename", "file")
		what = strings.TrimSpace(call.Name + " " + file)
		if failure == "" && file != "" {
			list = append(list, conversation.Event{Kind: conversation.Touched, Text: file})
		}
	case slices.Contains(l.deps.Config.ShellTools, call.Name):
		command := argument(call.Arguments, "command", "cmd", "script")
		what = strings.TrimSpace("$ " + command)
		if status := exitStatus(text); failure == "" && status != 0 {
			failure = "exit status " + strconv.Itoa(status)
		}
		if commit := commitOf(command); failure == "" && commit != "" {
			list = append(list, conversation.Event{Kind: conversation.Decided, Text: "committed: " + commit})
		}
	}
	if failure != "" {
		return append(list, conversation.Event{Kind: conversation.Failed, Text: what, Error: failure})
	}
	return append(list, conversation.Event{Kind: conversation.Succeeded, Text: what})
}

// failureOf is how a tool failed, as the registry tells the model.
func failureOf(text string) string {
	failure, failed := strings.CutPrefix(text, "error: ")
	if !failed {
		return ""
	}
	line, _, _ := strings.Cut(failure, "\n")
	return line
}

// recordOf is what the model asked to be kept.
func recordOf(arguments string) []conversation.Event {
	r, err := tools.ReadRecord(json.RawMessage(arguments))
	if err != nil {
		return nil // the model was told
	}
	kind := map[string]conversation.EventKind{
		tools.RecordConstraint: conversation.Constrained,
		tools.RecordDecision:   conversation.Decided,
		tools.RecordWithdraw:   conversation.Withdrawn,
	}[r.Kind]
	return []conversation.Event{{Kind: kind, Text: r.Text}}
}

// argument is the first of the named arguments of a call that is a text.
func argument(arguments string, names ...string) string {
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &all) != nil {
		return ""
	}
	for _, name := range names {
		var text string
		if json.Unmarshal(all[name], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// exitForm finds "exit status 1", "exited with code 2" and `"exit_code": 3`.
var exitForm = regexp.MustCompile(`(?i)\bexit(?:ed)?(?:[ _]with)?[ _]?(?:status|code)["']?\s*[:=]?\s*(\d{1,3})\b`)

// exitStatus is what the result of a shell says of how it ended, 0 when nothing.
// What the command has printed stands before it.
func exitStatus(text string) int {
	found := exitForm.FindAllStringSubmatch(text, -1)
	if found == nil {
		return 0
	}
	status, _ := strconv.Atoi(found[len(found)-1][1]) // three digits always fit
	return status
}

var commitForm = regexp.MustCompile(`\bgit\s+commit\b[^|;&]*?\s-[a-zA-Z]*m\s*(?:"([^"]+)"|'([^']+)')`)

// commitOf is the message of the git commit that a command makes, "" for none.
func commitOf(command string) string {
	found := commitForm.FindStringSubmatch(command)
	if found == nil {
		return ""
	}
	return found[1] + found[2]
}
