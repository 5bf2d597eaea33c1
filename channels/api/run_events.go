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
	eventUsage      = "usage"
	eventDone       = "done"
	eventError      = "error"
	eventMessage    = "message"
	eventNotice     = "notice"
)

type accepted struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	URL     string `json:"url" doc:"Where the answer can be asked for"`
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

// follower turns the states of runs into events: what has come since the last.
// The deltas since the latest reset are always the beginning of the text.
type follower struct {
	run   int64
	text  string                  // that was sent
	tools []activity.ToolProgress // that were told of
}

// follow gives the events that lead from the last state to this one.
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

// precedes reports whether the text of a state stands before its tool calls: it
// goes on with what was sent, or asks for a call that is under way. Else the
// model has said it when it had the results.
func (f *follower) precedes(p activity.Progress) bool {
	if f.text != "" {
		return strings.HasPrefix(p.Text, f.text)
	}
	return slices.ContainsFunc(p.Tools, func(t activity.ToolProgress) bool { return !t.Done })
}

// turnTo gives the events that make the text of the deltas another.
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

// missed gives the events of calls that were over before the follower looked.
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

// event has a value as its data, in one line.
func event(name string, value any) httpserver.Event {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // the values are plain
	}
	return httpserver.Event{Name: name, Data: strings.TrimSuffix(data.String(), "\n")}
}
