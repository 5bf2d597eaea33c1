package importer

import (
	"encoding/json"
	"fmt"
	"regexp"

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
		p.list, p.open = append(p.list, m), m.ToolCalls
	}
	p.answer()
	return p.list
}

// pairing is the list so far.
type pairing struct {
	list []conversation.Message
	open []conversation.ToolCall // calls of the last assistant message that have no result
	made int                     // number of IDs that were made
}

// result adds what a tool gave.
func (p *pairing) result(m conversation.Message) {
	m.ToolName = toolName(m.ToolName)
	for i, call := range p.open {
		if call.ID == m.ToolCallID {
			m.ToolName = call.Name
			p.open = append(p.open[:i:i], p.open[i+1:]...)
			p.list = append(p.list, m)
			return
		}
	}
	if last := len(p.list) - 1; last >= 0 && p.list[last].Role == conversation.RoleTool && p.list[last].ToolCallID == m.ToolCallID && m.ToolCallID != "" {
		p.list[last].Content = join(p.list[last].Content, m.Content)
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

// answer tells the open calls that there is no result.
func (p *pairing) answer() {
	for _, call := range p.open {
		p.list = append(p.list, conversation.Message{
			Role:       conversation.RoleTool,
			Content:    noResult,
			ToolCallID: call.ID,
			ToolName:   call.Name,
			At:         p.list[len(p.list)-1].At,
		})
	}
	p.open = nil
}

// named gives the calls of a message ids of their own and names that the API
// takes.
func (p *pairing) named(calls []conversation.ToolCall) []conversation.ToolCall {
	var named []conversation.ToolCall
	taken := map[string]bool{"": true}
	for _, call := range calls {
		if taken[call.ID] {
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

func join(text, more string) string {
	if text == "" || more == "" {
		return text + more
	}
	return text + "\n" + more
}
