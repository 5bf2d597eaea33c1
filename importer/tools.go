package importer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"parley/conversation"
)

// noResult stands for what a tool gave and the file does not tell.
const noResult = "[the result was not kept]"

// pairTools makes a list that a model's API takes: every result of a tool
// follows a call, and every call has one result. Nothing is left out: a result
// without a call gets one, a call without a result is told so, and what several
// messages give as the result of one call is joined.
func pairTools(messages []conversation.Message) []conversation.Message {
	var p pairing
	for _, m := range messages {
		if m.Role == conversation.RoleTool {
			p.result(m)
			continue
		}
		p.answer()
		m.ToolCalls = p.named(m.ToolCalls)
		p.list, p.open = append(p.list, m), map[string]string{}
		for _, call := range m.ToolCalls {
			p.open[call.ID] = call.Name
		}
		p.asked = m.ToolCalls
	}
	p.answer()
	return p.list
}

// pairing is the list so far.
type pairing struct {
	list  []conversation.Message
	asked []conversation.ToolCall // calls of the last assistant message
	open  map[string]string       // names of those that have no result, by their IDs
	more  []string                // further results of the last call
	made  int                     // number of IDs that were made
}

// result adds what a tool gave.
func (p *pairing) result(m conversation.Message) {
	m.ToolName = toolName(m.ToolName)
	if name, is := p.open[m.ToolCallID]; is {
		m.ToolName = name
		delete(p.open, m.ToolCallID)
		p.joinResults()
		p.list = append(p.list, m)
		return
	}
	if last := len(p.list) - 1; last >= 0 && p.list[last].Role == conversation.RoleTool && p.list[last].ToolCallID == m.ToolCallID && m.ToolCallID != "" {
		p.more = append(p.more, m.Content)
		return
	}
	p.answer()
	call := conversation.ToolCall{ID: p.id(), Name: m.ToolName, Arguments: "{}"}
	if m.ToolCallID != "" {
		call.ID = m.ToolCallID // so that more results of it find it
	}
	m.ToolCallID = call.ID
	asked := conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{call}, At: m.At}
	p.list = append(p.list, asked, m)
}

// joinResults adds the further results of the last call to the first one.
func (p *pairing) joinResults() {
	if last := len(p.list) - 1; len(p.more) > 0 {
		p.list[last].Content = joinAll(append([]string{p.list[last].Content}, p.more...))
		p.more = nil
	}
}

// answer tells the open calls that there is no result.
func (p *pairing) answer() {
	p.joinResults()
	for _, call := range p.asked {
		if _, isOpen := p.open[call.ID]; !isOpen {
			continue
		}
		p.list = append(p.list, conversation.Message{
			Role:       conversation.RoleTool,
			Content:    noResult,
			ToolCallID: call.ID,
			ToolName:   call.Name,
			At:         p.list[len(p.list)-1].At,
		})
	}
	p.asked, p.open = nil, nil
}

// named gives the calls of a message ids of their own and names that the API
// takes.
func (p *pairing) named(calls []conversation.ToolCall) []conversation.ToolCall {
	var named []conversation.ToolCall
	taken := map[string]bool{"": true}
	for _, call := range calls {
		for taken[call.ID] {
			call.ID = p.id()
		}
		taken[call.ID] = true
		call.Name = toolName(call.Name)
		named = append(named, call)
	}
	return named
}

func (p *pairing) id() string {
	p.made++
	return fmt.Sprintf("imported_%d", p.made)
}

// A function's name has up to 64 letters, digits, underscores and hyphens:
// https://platform.openai.com/docs/api-reference/chat/create
var notInToolName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func toolName(name string) string {
	name = notInToolName.ReplaceAllString(name, "_")
	if name == "" {
		return "tool"
	}
	return name[:min(len(name), 64)]
}

// arguments makes of what a tool was told the JSON object that the API expects.
func arguments(text string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) == nil && object != nil {
		return text
	}
	made, _ := json.Marshal(map[string]string{"input": text}) // strings always can be
	return string(made)
}

// joinAll returns the texts that are not empty, a line each. It changes the list.
func joinAll(texts []string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "\n")
}
