package console

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/runs"
	"parley/conversation/steps"
	"parley/conversation/usage"
	"parley/plaintext"
)

// runsPerPage is how many runs a page of a trace has.
const runsPerPage = 20

type tracePage struct {
	conversation.Conversation
	Tab    string // "trace"
	AtWork bool
	usage.Trace
	Total   usage.Totals
	Cost    sum
	Runs    []runRow // newest first
	Earlier string   // address, "" for none
	Newest  string
}

// runRow is a run with its timeline.
type runRow struct {
	runs.Record
	Took  time.Duration
	Asked string // the text of the first message that the run took, clipped
	Who   string
	At    int64 // seq of its first message, 0 for none
	Cost  sum
	Bars  []bar
	Told  []string // the instructions of programs that were in force

	Thoughts []string // the model's reasoning before each of its messages that has any
}

// bar is a step on the timeline of its run, which is 1000 wide.
type bar struct {
	steps.Step
	X, Width  int
	WorkX     int // where the part after the first byte of a model's answer begins
	WorkWidth int
	After     string // time from the run's start to that of the step
	Arguments string // arguments of a tool call
	Result    string // result of a tool call
	Missing   bool   // the result is not among the messages that were read
}

// timelineWidth is the width of each timeline, however long the run took.
const timelineWidth = 1000

// showTrace shows how the answers of a conversation came about: its newest runs,
// or those before one, ?before=RUN.
func (c *Console) showTrace(w http.ResponseWriter, r *http.Request) {
	of, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	before := number(r, "before", 0, math.MaxInt64)
	trace, err := usage.New(c.Store).Trace(r.Context(), usage.TraceQuery{Conversation: of.ID, Before: before, Limit: runsPerPage})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	messages, err := usage.New(c.Store).Messages(r.Context(), of.ID, trace.Runs)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	told, err := usage.New(c.Store).Instructions(r.Context(), of.ID, trace.Runs)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	p := tracePage{Conversation: of, Tab: "trace", Trace: trace, AtWork: of.Active && c.atWork(of.Key)}
	for _, run := range slices.Backward(trace.Runs) {
		row := c.runRow(run, messages[run.ID])
		row.Told = told[run.Instructions]
		p.Runs = append(p.Runs, row)
	}
	c.addTotals(&p)
	base := "/console/conversation/" + of.ID + "/trace"
	if trace.Older {
		p.Earlier = fmt.Sprintf("%s?before=%d", base, trace.Runs[0].ID)
	}
	if before > 0 {
		p.Newest = base
	}
	c.show(w, r, "trace.html", "sessions", titleOf(of), p)
}

func (c *Console) addTotals(p *tracePage) {
	for _, m := range p.Models {
		p.Total.Add(m.Totals)
		c.addCost(&p.Cost, m.Model, m.Cost)
	}
}

func (c *Console) runRow(run runs.Record, messages []conversation.Message) runRow {
	e := runRow{Record: run, Took: run.EndedAt.Sub(run.StartedAt) - steps.Waited(run.Steps), Who: senderName(run.Asked)}
	if run.Kind == conversation.KindAgent {
		c.addCost(&e.Cost, run.Model, usage.CostOf(run))
	}
	arguments, results := map[string]string{}, map[string]string{}
	for _, m := range messages {
		if e.At == 0 {
			e.At = m.Seq
		}
		if m.Role == conversation.RoleUser && e.Asked == "" {
			e.Asked = plaintext.ShortLine(m.Content, 160)
		}
		if thought := strings.TrimSpace(m.Reasoning); thought != "" {
			e.Thoughts = append(e.Thoughts, thought)
		}
		for _, call := range m.ToolCalls {
			arguments[call.ID] = call.Arguments
		}
		if m.Role == conversation.RoleTool {
			results[m.ToolCallID] = m.Content
		}
	}
	scale := scaleOf(run)
	for _, step := range run.Steps {
		b := scale.bar(step)
		var found bool
		b.Arguments = arguments[step.CallID]
		b.Result, found = results[step.CallID]
		b.Missing = step.Kind == steps.Tool && !found
		e.Bars = append(e.Bars, b)
	}
	return e
}

// timeline maps the time of a run to its width.
type timeline struct {
	start time.Time
	whole time.Duration
}

func scaleOf(run runs.Record) timeline {
	end := run.EndedAt
	for _, step := range run.Steps {
		if done := step.At.Add(step.Took); done.After(end) {
			end = done
		}
	}
	return timeline{run.StartedAt, max(end.Sub(run.StartedAt), time.Millisecond)}
}

// bar returns the bar of a step. Even the shortest one is visible.
func (t timeline) bar(step steps.Step) bar {
	const narrowest = 4
	after := max(step.At.Sub(t.start), 0)
	b := bar{Step: step, After: took(after)}
	b.X = min(t.place(after), timelineWidth-narrowest)
	b.Width = min(max(t.place(step.Took), narrowest), timelineWidth-b.X)
	wait := 0
	if step.Kind == steps.Model {
		wait = min(t.place(step.FirstByte), b.Width-1)
	}
	b.WorkX, b.WorkWidth = b.X+wait, b.Width-wait
	return b
}

func (t timeline) place(d time.Duration) int {
	return int(timelineWidth * min(max(d, 0), t.whole) / t.whole)
}
