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

// The session state notes what the tools did: files that were written, commands that
// failed, and what the model asked to be recorded. All of it is read from the calls
// and their results.

// toolEvents returns the events of the tool rounds of an answer.
func (c *Config) toolEvents(messages []window.Entry) []conversation.Event {
	var list []conversation.Event
	var calls []llm.ToolCall
	for _, m := range messages {
		if m.Role == "assistant" {
			calls = m.ToolCalls
			continue
		}
		i := slices.IndexFunc(calls, func(call llm.ToolCall) bool { return call.ID == m.ToolCallID })
		if m.Role == "tool" && i >= 0 {
			list = append(list, c.callEvents(calls[i], m)...)
		}
	}
	return list
}

// callEvents returns the events of one call.
func (c *Config) callEvents(call llm.ToolCall, result window.Entry) []conversation.Event {
	var list []conversation.Event
	what, failure := call.Name, failureOf(result)
	switch {
	case call.Name == tools.SessionStateName:
		return recordOf(call.Arguments)
	case slices.Contains(c.FileTools, call.Name):
		file := argument(call.Arguments, "path", "file_path", "filename", "file")
		what = strings.TrimSpace(call.Name + " " + file)
		if failure == "" && file != "" {
			list = append(list, conversation.Event{Kind: conversation.Touched, Text: file})
		}
	case slices.Contains(c.ShellTools, call.Name):
		command := argument(call.Arguments, "command", "cmd", "script")
		what = strings.TrimSpace("$ " + command)
		if status := exitStatus(result.Content); failure == "" && status != 0 {
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

// recordOf returns the event of a call by which the model has something recorded.
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

// argument returns the first of the named arguments of a call that is a string.
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

// exitForm matches "exit status 1", "exited with code 2" and `"exit_code": 3`.
var exitForm = regexp.MustCompile(`(?i)\bexit(?:ed)?(?:[ _]with)?[ _]?(?:status|code)["']?\s*[:=]?\s*(\d{1,3})\b`)

// exitStatus returns the exit status that the result of a shell tool names last,
// behind what the command has printed, or 0 when it names none.
func exitStatus(text string) int {
	found := exitForm.FindAllStringSubmatch(text, -1)
	if found == nil {
		return 0
	}
	status, _ := strconv.Atoi(found[len(found)-1][1]) // three digits always fit
	return status
}

var commitForm = regexp.MustCompile(`\bgit\s+commit\b[^|;&]*?\s-[a-zA-Z]*m\s*(?:"([^"]+)"|'([^']+)')`)

// commitOf returns the message of the git commit that a command makes, "" for none.
func commitOf(command string) string {
	found := commitForm.FindStringSubmatch(command)
	if found == nil {
		return ""
	}
	return found[1] + found[2]
}
