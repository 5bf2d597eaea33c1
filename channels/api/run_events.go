package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"parley/activity"
	"parley/httpserver"
)

// The events of streams.
const (
	eventAccepted   = "accepted"
	eventDelta      = "delta"
	eventReset      = "reset"
	eventToolCall   = "tool_call"
	eventToolResult = "tool_result"
	eventApproval   = "approval"
	eventUsage      = "usage"
	eventDone       = "done"
	eventError      = "error"
	eventMessage    = "message"
	eventNotice     = "notice"
)

type accepted struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	URL     string `json:"url" doc:"The address at which the answer can be requested"`
}

type delta struct {
	Text string `json:"text"`
}

type startedCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type endedCall struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	TookMS int64  `json:"took_ms"`
	Error  string `json:"error,omitempty"`
}

// follower turns the progress of runs into events: what is new since the last
// call. The deltas since the latest reset are always the beginning of the text.
type follower struct {
	run   int64
	text  string                  // text of the model call under way that was sent
	tools []activity.ToolProgress // tool calls as they were sent last
}

// follow returns the events that lead from the last progress to this one.
func (f *follower) follow(p activity.Progress) []httpserver.Event {
	var events []httpserver.Event
	if p.Run != f.run {
		events = f.turnTo("")
		f.run, f.tools = p.Run, nil
	}
	if f.precedes(p) {
		return append(append(events, f.turnTo(p.Text)...), f.newTools(p.Tools)...)
	}
	return append(append(events, f.newTools(p.Tools)...), f.turnTo(p.Text)...)
}

// precedes reports whether the text comes before its tool calls: it continues
// what was sent, or asks for a call that is under way. Otherwise the model wrote
// it after it had the results.
func (f *follower) precedes(p activity.Progress) bool {
	if f.text != "" {
		return strings.HasPrefix(p.Text, f.text)
	}
	return slices.ContainsFunc(p.Tools, func(t activity.ToolProgress) bool { return !t.Done })
}

// turnTo returns the events that turn the text of the deltas into another.
func (f *follower) turnTo(text string) (events []httpserver.Event) {
	if !strings.HasPrefix(text, f.text) {
		events = append(events, event(eventReset, struct{}{}))
		f.text = ""
	}
	if news := text[len(f.text):]; news != "" {
		events = append(events, event(eventDelta, delta{news}))
	}
	f.text = text
	return events
}

func (f *follower) newTools(tools []activity.ToolProgress) (events []httpserver.Event) {
	for i, t := range tools {
		if i == len(f.tools) {
			f.tools = append(f.tools, activity.ToolProgress{})
			events = append(events, event(eventToolCall, startedCall{t.ID, t.Name, t.Arguments}))
		}
		if t.Done && !f.tools[i].Done {
			events = append(events, event(eventToolResult, endedCall{t.ID, t.Name, t.Took.Milliseconds(), t.Error}))
		}
		f.tools[i] = t
	}
	return events
}

// missed returns the events of tool calls that ended between two calls of follow.
func (f *follower) missed(used []usedTool) []httpserver.Event {
	tools := slices.Clone(f.tools)
	known := map[string]int{} // calls by their id, which a model may use again
	for _, t := range f.tools {
		known[t.ID]++
	}
	for i := range tools {
		tools[i].Done = true
	}
	for _, u := range used {
		if known[u.ID]--; known[u.ID] < 0 {
			tools = append(tools, activity.ToolProgress{ID: u.ID, Name: u.Name, Arguments: u.Arguments, Done: true})
		}
	}
	return f.newTools(tools)
}

// event returns an event with a value as JSON in one line.
func event(name string, value any) httpserver.Event {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // the values are plain
	}
	return httpserver.Event{Name: name, Data: strings.TrimSuffix(data.String(), "\n")}
}
