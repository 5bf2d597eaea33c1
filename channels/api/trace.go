package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/runs"
	"parley/conversation/steps"
	stored "parley/conversation/usage"
)

func (c *Channel) traceOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "get-trace", Method: http.MethodGet, Path: pathOfConversation + "/trace", Tags: []string{tagConversations}, Parameters: []*huma.Param{metadataParam("a message of the run")},
			Summary: "Get the trace of a conversation", Description: "Its runs with the instructions that were in force, the messages that each added and how long each model call and tool call took, and sums over all of it.", Errors: []int{http.StatusNotFound},
		}, c.getTrace),
	}
}

type getTrace struct {
	OfChat
	MetadataFilter
	Before int64 `query:"before" minimum:"1" doc:"Only runs before this one"`
	Limit  int   `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"How many runs at most, the newest"`
}

// trace is how the answers of a conversation came about.
type trace struct {
	Conversation chat         `json:"conversation"`
	Summary      traceSummary `json:"summary" doc:"Sums over the whole conversation"`
	Runs         []tracedRun  `json:"runs" doc:"Oldest first"`
	More         bool         `json:"more,omitempty" doc:"There are runs before these"`
}

type traceSummary struct {
	Roles  []roleTotals `json:"roles"`
	Tools  []toolTotals `json:"tools"`
	Models []modelTotal `json:"models"`
	Totals
}

type roleTotals struct {
	Role     conversation.Role `json:"role"`
	Internal bool              `json:"internal"`
	Messages int64             `json:"messages"`
	Tokens   int64             `json:"tokens"`
}

type toolTotals struct {
	Name   string `json:"name"`
	Calls  int64  `json:"calls"`
	Failed int64  `json:"failed"`
	TookMS int64  `json:"took_ms"`
}

type modelTotal struct {
	Model string `json:"model"`
	Totals
}

// Totals are sums over runs.
type Totals struct {
	Runs       int64    `json:"runs"`
	Failed     int64    `json:"failed"`
	Stopped    int64    `json:"stopped"`
	Messages   int64    `json:"messages" doc:"The number of messages that the runs added"`
	Prompt     int64    `json:"prompt_tokens"`
	Cached     int64    `json:"cached_tokens,omitempty" doc:"How many of prompt_tokens the model's server took from its cache"`
	Completion int64    `json:"completion_tokens"`
	TookMS     int64    `json:"took_ms"`
	Cost       *float64 `json:"cost,omitempty" doc:"The cost by the prices of the time of each call; absent if a model had no price and has none now"`
}

type tracedRun struct {
	ID         int64     `json:"id" doc:"The run's id, which is the field run of its messages"`
	Kind       string    `json:"kind" enum:"agent,command"`
	Status     string    `json:"status" enum:"done,failed,stopped"`
	Asked      string    `json:"asked,omitempty" doc:"Who wrote the message that began the run"`
	Agent      string    `json:"agent,omitempty" doc:"The agent that answered; absent: the default one"`
	Model      string    `json:"model,omitempty"`
	ModelCalls int       `json:"model_calls"`
	Prompt     int       `json:"prompt_tokens"`
	Cached     int       `json:"cached_tokens,omitempty"`
	Completion int       `json:"completion_tokens"`
	Cost       *float64  `json:"cost,omitempty"`
	Messages   int64     `json:"messages" doc:"The number of messages that the run added"`
	Added      []message `json:"added" doc:"The messages that the run added, in order; left out for older runs if all together exceed about 1 MiB"`
	Told       []string  `json:"instructions,omitempty" doc:"The instructions of programs that were in force, in order; absent if they were not recorded"`
	Error      string    `json:"error,omitempty"`
	Finish     string    `json:"finish_reason,omitempty" enum:"length,content_filter,cut_off" doc:"Why the answer is incomplete"`
	Warnings   []string  `json:"warnings,omitempty" doc:"What readers should know beside its answer, as Markdown"`
	StartedAt  time.Time `json:"started_at"`
	TookMS     int64     `json:"took_ms"`
	Steps      []step    `json:"steps"`
}

type step struct {
	Kind        string    `json:"kind" enum:"model,tool,resumed,approval" doc:"resumed: no call, but the run was continued from its journal after the gateway had stopped; approval: somebody was asked whether a tool may be called"`
	Name        string    `json:"name"`
	Purpose     string    `json:"purpose,omitempty" enum:"title,summary,transcription" doc:"For a model call that writes no answer: what it was made for"`
	At          time.Time `json:"at"`
	TookMS      int64     `json:"took_ms"`
	FirstByteMS int64     `json:"first_byte_ms,omitempty"`
	Prompt      int       `json:"prompt_tokens,omitempty"`
	Cached      int       `json:"cached_tokens,omitempty"`
	Completion  int       `json:"completion_tokens,omitempty"`
	Shown       int64     `json:"shown,omitempty" doc:"The number of messages of the conversation that the model was sent"`
	Left        int64     `json:"left,omitempty" doc:"The number of older messages that it was not sent"`
	Window      int       `json:"window_tokens,omitempty" doc:"The number of tokens that it was sent, as the gateway counts them"`
	Finish      string    `json:"finish_reason,omitempty" enum:"length,content_filter,cut_off" doc:"Why the model's answer is incomplete"`
	Call        string    `json:"tool_call_id,omitempty"`
	Answer      string    `json:"answer,omitempty" enum:"allowed,denied,expired,cancelled" doc:"The answer to an approval"`
	By          string    `json:"answered_by,omitempty"`
	Error       string    `json:"error,omitempty"`
	Failure     string    `json:"error_kind,omitempty" doc:"For a model call that failed: the kind of the failure"`
}

type traceAnswer struct{ Body trace }

func (c *Channel) getTrace(ctx context.Context, in *getTrace) (*traceAnswer, error) {
	if _, err := c.Store.Conversation(ctx, in.ID); err != nil { // Trace takes the beginning of an id as well
		return nil, err
	}
	t, err := stored.New(c.Store).Trace(ctx, stored.TraceQuery{Conversation: in.ID, Before: in.Before, Limit: in.Limit, Metadata: in.wanted})
	if err != nil {
		return nil, err
	}
	added, err := stored.New(c.Store).Messages(ctx, in.ID, t.Runs)
	if err != nil {
		return nil, err
	}
	told, err := stored.New(c.Store).Instructions(ctx, in.ID, t.Runs)
	if err != nil {
		return nil, err
	}
	out := trace{Conversation: c.chatOf(t.Conversation), Summary: c.summaryOf(t), More: t.Older}
	out.Runs = mapped(t.Runs, func(r runs.Record) tracedRun {
		run := c.runOf(r)
		run.Told = told[r.Instructions]
		run.Added = mapped(added[r.ID], func(m conversation.Message) message {
			return messageOf(in.ID, m, m.State).writtenBy(runs.Answered{Model: r.Model, Agent: r.Agent})
		})
		return run
	})
	return &traceAnswer{out}, nil
}

func (c *Channel) summaryOf(t stored.Trace) traceSummary {
	s := traceSummary{
		Roles: mapped(t.Roles, func(r stored.RoleTotals) roleTotals { return roleTotals(r) }),
		Tools: mapped(t.Tools, func(t stored.ToolTotals) toolTotals {
			return toolTotals{t.Name, t.Calls, t.Failed, t.Took.Milliseconds()}
		}),
		Models: mapped(t.Models, func(m stored.ModelTotals) modelTotal {
			return modelTotal{m.Model, c.totalsOf(m.Model, m.Totals, m.Cost)}
		}),
	}
	var all stored.Totals
	cost, priced := 0.0, len(s.Models) > 0
	for i, m := range t.Models {
		all.Add(m.Totals)
		if of := s.Models[i].Cost; of != nil {
			cost += *of
		} else {
			priced = false
		}
	}
	s.Totals = totalsOf(all)
	if priced {
		s.Cost = &cost
	}
	return s
}

func totalsOf(t stored.Totals) Totals {
	return Totals{
		Runs: t.Runs, Failed: t.Failed, Stopped: t.Stopped, Messages: t.Messages, Prompt: t.Prompt, Cached: t.Cached, Completion: t.Completion,
		TookMS: t.Took.Milliseconds(),
	}
}

// totalsOf sums the runs of one model, with their cost.
func (c *Channel) totalsOf(model string, t stored.Totals, cost stored.Cost) Totals {
	out := totalsOf(t)
	out.Cost = c.cost(model, cost)
	return out
}

// cost returns a cost in the currency of the prices, nil if it is not known.
func (c *Channel) cost(model string, of stored.Cost) *float64 {
	if cost, known := of.Of(model, c.Cost); known {
		return &cost
	}
	return nil
}

func (c *Channel) runOf(r runs.Record) tracedRun {
	asked := r.Asked.Name
	if asked == "" {
		asked = r.Asked.ID
	}
	return tracedRun{
		ID: r.ID, Kind: string(r.Kind), Status: string(r.Status), Asked: asked, Agent: r.Agent, Model: r.Model, ModelCalls: r.Rounds,
		Prompt: r.Prompt, Cached: r.Cached, Completion: r.Completion, Cost: c.cost(r.Model, stored.CostOf(r)), Messages: r.Messages,
		Error: r.Error, Finish: string(r.FinishReason), Warnings: r.Warnings, StartedAt: r.StartedAt.UTC(), TookMS: (r.EndedAt.Sub(r.StartedAt) - steps.Waited(r.Steps)).Milliseconds(), Steps: mapped(r.Steps, stepOf),
	}
}

func stepOf(s steps.Step) step {
	return step{
		Kind: string(s.Kind), Name: s.Name, Purpose: string(s.Purpose), At: s.At.UTC(), TookMS: s.Took.Milliseconds(), FirstByteMS: s.FirstByte.Milliseconds(),
		Prompt: s.Prompt, Cached: s.Cached, Completion: s.Completion, Shown: s.Shown, Left: s.Left, Window: s.Window, Finish: string(s.FinishReason), Call: s.CallID, Answer: s.Answer, By: s.By, Error: s.Error, Failure: s.Failure,
	}
}
