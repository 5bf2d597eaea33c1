package transcript

import (
	"encoding/json"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/media"
	"parley/conversation/metadata"
	"parley/conversation/runs"
	"parley/conversation/state"
	"parley/conversation/steps"
)

// This file converts the records of an archive to their forms in JSON, and back.

type archivedSession struct {
	Session   conversation.Key `json:"session"`
	Place     string           `json:"place"`
	Version   int              `json:"version"`
	CreatedAt time.Time        `json:"created_at"`
	Pinned    bool             `json:"pinned,omitempty"`
	Metadata  json.RawMessage  `json:"metadata,omitempty"`
	Carried   *state.State     `json:"carried,omitempty"` // the session state with which its next conversation begins
	Model     string           `json:"model,omitempty"`   // the model that was chosen for the session
	Agent     string           `json:"agent,omitempty"`   // the agent that was chosen for the session
}

func sessionForm(s archive.Session) archivedSession {
	return archivedSession{Session: s.Key, Place: s.Place, Version: ArchiveVersion, CreatedAt: s.CreatedAt.UTC(), Pinned: s.Pinned, Metadata: rawMetadata(s.Metadata), Carried: s.Carried, Model: s.Model, Agent: s.Agent}
}

// ParseSession parses the record of a session. A version other than ArchiveVersion is an
// error.
func ParseSession(raw []byte) (s archive.Session, err error) {
	var form archivedSession
	if err := json.Unmarshal(raw, &form); err != nil {
		return s, err
	}
	if form.Version != ArchiveVersion {
		return s, fmt.Errorf("version: found %d, allowed: %d", form.Version, ArchiveVersion)
	}
	return archive.Session{
		Key: form.Session, Place: form.Place, Pinned: form.Pinned, Metadata: metadata.Object(form.Metadata), CreatedAt: form.CreatedAt, Carried: form.Carried,
		Model: form.Model, Agent: form.Agent,
	}, nil
}

type archivedConversation struct {
	Conversation
	Metadata     json.RawMessage       `json:"metadata,omitempty"`
	Window       archivedWindow        `json:"window,omitzero"`
	Participants []conversation.Sender `json:"participants,omitempty"`
	Branches     archivedBranches      `json:"branches,omitzero"`
}

// archivedBranches has the branches of a conversation. Each message follows the message with
// the seq before its own, unless a branch begins with it.
type archivedBranches struct {
	Chosen int64                 `json:"chosen,omitempty"` // the seq of the last message of the chosen branch; 0 = the newest message
	Begin  []archivedBranchStart `json:"begin,omitempty"`
	End    []archivedBranchEnd   `json:"end,omitempty"`
}

type archivedBranchStart struct {
	Seq     int64 `json:"seq"`     // the seq of the first message of the branch
	Follows int64 `json:"follows"` // the seq of the message that it follows; 0 = it begins the conversation
}

type archivedBranchEnd struct {
	Seq   int64       `json:"seq"`            // the seq of the last message of the branch
	State state.State `json:"state,omitzero"` // the session state when another branch was chosen
}

func branchesForm(b archive.Branches) (form archivedBranches) {
	form.Chosen = b.Tip
	for _, s := range b.Starts {
		form.Begin = append(form.Begin, archivedBranchStart{s.Seq, s.Parent})
	}
	for _, e := range b.Ends {
		form.End = append(form.End, archivedBranchEnd{e.Seq, e.State})
	}
	return form
}

func (form archivedBranches) branches() (b archive.Branches) {
	b.Tip = form.Chosen
	for _, s := range form.Begin {
		b.Starts = append(b.Starts, archive.BranchStart{Seq: s.Seq, Parent: s.Follows})
	}
	for _, e := range form.End {
		b.Ends = append(b.Ends, archive.BranchEnd{Seq: e.Seq, State: e.State})
	}
	return b
}

type archivedWindow struct {
	Start  int64 `json:"start"`            // the seq of the first message that the model is shown
	Cut    int   `json:"cut,omitempty"`    // the tokens to which longer messages are cut
	Budget int   `json:"budget,omitempty"` // the tokens that a call could have when the window was chosen
	Named  int   `json:"named,omitempty"`  // how many of the oldest pictures are named and not shown
}

func conversationForm(c archive.Head) archivedConversation {
	return archivedConversation{NewConversation(c.Conversation), rawMetadata(c.Metadata), archivedWindow(c.Window), c.Participants, branchesForm(c.Branches)}
}

// ParseConversation parses the head of a conversation, without its other records.
func ParseConversation(raw []byte) (archive.Head, error) {
	var form archivedConversation
	err := json.Unmarshal(raw, &form)
	return archive.Head{
		Conversation: conversation.Conversation{
			ID: form.ID, Title: form.Title, Active: form.Active, Messages: form.MessageCount, Tokens: form.TokenCount, State: form.State,
			Window: conversation.Window(form.Window), Metadata: metadata.Object(form.Metadata), CreatedAt: form.CreatedAt, UpdatedAt: form.UpdatedAt,
		},
		Participants: form.Participants,
		Branches:     form.Branches.branches(),
	}, err
}

type archivedInstructions struct {
	Hash  string   `json:"hash"` // archivedRun.Instructions refers to it
	Texts []string `json:"texts"`
}

type archivedSummary struct {
	Through int64     `json:"through"` // the seq of the last message that it covers
	Content string    `json:"content"`
	Tokens  int       `json:"tokens"`
	At      time.Time `json:"at"`
}

type archivedRun struct {
	ID              int64               `json:"id"`
	Kind            conversation.Kind   `json:"kind"`
	Status          conversation.Status `json:"status"`
	Asked           conversation.Sender `json:"asked,omitzero"`
	Agent           string              `json:"agent,omitempty"`
	Model           string              `json:"model,omitempty"`
	ModelCalls      int                 `json:"model_calls"`
	Prompt          int                 `json:"prompt_tokens"`
	Cached          int                 `json:"cached_tokens,omitempty"`
	Completion      int                 `json:"completion_tokens"`
	Cost            *int64              `json:"cost_billionths,omitempty"` // of the currency of the prices
	Messages        int64               `json:"messages"`
	Error           string              `json:"error,omitempty"`
	FinishReason    steps.FinishReason  `json:"finish_reason,omitempty"`
	NewConversation bool                `json:"new_conversation,omitempty"`
	Instructions    string              `json:"instructions,omitempty"`
	Warnings        []string            `json:"warnings,omitempty"`
	StartedAt       time.Time           `json:"started_at"`
	EndedAt         time.Time           `json:"ended_at"`
	Steps           []archivedStep      `json:"steps,omitempty"`
}

type archivedBackground struct {
	Run int64 `json:"run"` // the ID of the run after whose commit the call was made
	archivedStep
}

type archivedStep struct {
	Kind         steps.Kind         `json:"kind"`
	Name         string             `json:"name"`
	Purpose      steps.Purpose      `json:"purpose,omitempty"`
	At           time.Time          `json:"at"`
	TookMS       int64              `json:"took_ms"`
	FirstByteMS  int64              `json:"first_byte_ms,omitempty"`
	Prompt       int                `json:"prompt_tokens,omitempty"`
	Cached       int                `json:"cached_tokens,omitempty"`
	Completion   int                `json:"completion_tokens,omitempty"`
	Cost         *int64             `json:"cost_billionths,omitempty"`
	Shown        int64              `json:"shown,omitempty"`
	Left         int64              `json:"left,omitempty"`
	Window       int                `json:"window_tokens,omitempty"`
	FinishReason steps.FinishReason `json:"finish_reason,omitempty"`
	CallID       string             `json:"tool_call_id,omitempty"`
	Error        string             `json:"error,omitempty"`
	Failure      string             `json:"failure,omitempty"`
	Answer       string             `json:"answer,omitempty"`
	By           string             `json:"by,omitempty"`
}

// recordForm returns the kind and the JSON form of a record.
func recordForm(r archive.Record) (Kind, any) {
	switch {
	case r.Instructions != nil:
		return KindInstructions, archivedInstructions(*r.Instructions)
	case r.Run != nil:
		return KindRun, runForm(*r.Run)
	case r.Background != nil:
		return KindBackground, archivedBackground{r.Background.Run, stepForm(r.Background.Step)}
	case r.Summary != nil:
		return KindSummary, archivedSummary{r.Summary.Through, r.Summary.Content, r.Summary.Tokens, r.Summary.At.UTC()}
	}
	return KindMessage, archivedMessage(*r.Message)
}

func archivedMessage(r conversation.Message) Message {
	m := NewMessage(r)
	m.Run, m.Metadata, m.SetAside, m.Reasoning = r.RunID, rawMetadata(r.Metadata), r.SetAside, r.Reasoning
	if !r.Note.IsZero() {
		m.Note = (*Note)(&r.Note)
	}
	for _, f := range r.Files {
		m.Files = append(m.Files, File{f.Name, f.MediaType, f.Size, f.Lines, f.Body, f.Problem, f.Data})
	}
	return m
}

func runForm(r runs.Record) archivedRun {
	form := archivedRun{
		ID: r.ID, Kind: r.Kind, Status: r.Status, Asked: r.Asked, Agent: r.Agent, Model: r.Model, ModelCalls: r.Rounds, Prompt: r.Prompt, Cached: r.Cached, Completion: r.Completion, Cost: r.Cost,
		Messages: r.Messages, Error: r.Error, FinishReason: r.FinishReason, NewConversation: r.NewConversation, Instructions: r.Instructions, Warnings: r.Warnings,
		StartedAt: r.StartedAt.UTC(), EndedAt: r.EndedAt.UTC(),
	}
	for _, s := range r.Steps {
		form.Steps = append(form.Steps, stepForm(s))
	}
	return form
}

func stepForm(s steps.Step) archivedStep {
	return archivedStep{
		Kind: s.Kind, Name: s.Name, Purpose: s.Purpose, At: s.At.UTC(), TookMS: s.Took.Milliseconds(), FirstByteMS: s.FirstByte.Milliseconds(), Prompt: s.Prompt,
		Cached: s.Cached, Completion: s.Completion, Cost: s.Cost, Shown: s.Shown, Left: s.Left, Window: s.Window, FinishReason: s.FinishReason, CallID: s.CallID, Error: s.Error, Failure: s.Failure,
		Answer: s.Answer, By: s.By,
	}
}

// ParseRecord parses a record of a conversation. A kind that conversations do not have is an error.
func ParseRecord(kind Kind, raw []byte) (r archive.Record, err error) {
	switch kind {
	case KindInstructions:
		var form archivedInstructions
		err = json.Unmarshal(raw, &form)
		r.Instructions = (*archive.Instructions)(&form)
	case KindRun:
		var form archivedRun
		err = json.Unmarshal(raw, &form)
		r.Run = form.run()
	case KindBackground:
		var form archivedBackground
		err = json.Unmarshal(raw, &form)
		r.Background = &archive.BackgroundStep{Run: form.Run, Step: form.step()}
	case KindSummary:
		var form archivedSummary
		err = json.Unmarshal(raw, &form)
		r.Summary = (*conversation.Summary)(&form)
	case KindMessage:
		var form Message
		err = json.Unmarshal(raw, &form)
		r.Message = form.message()
	default:
		err = fmt.Errorf("type: found %q, which is not known", kind)
	}
	return r, err
}

func (form archivedRun) run() *runs.Record {
	r := &runs.Record{
		ID: form.ID, Kind: form.Kind, Status: form.Status, Asked: form.Asked, Agent: form.Agent, Model: form.Model, Rounds: form.ModelCalls, Prompt: form.Prompt, Cached: form.Cached,
		Completion: form.Completion, Cost: form.Cost, Messages: form.Messages, Error: form.Error, FinishReason: form.FinishReason, NewConversation: form.NewConversation,
		Instructions: form.Instructions, Warnings: form.Warnings, StartedAt: form.StartedAt, EndedAt: form.EndedAt,
	}
	for _, s := range form.Steps {
		r.Steps = append(r.Steps, s.step())
	}
	return r
}

func (form archivedStep) step() steps.Step {
	return steps.Step{
		Kind: form.Kind, Name: form.Name, Purpose: form.Purpose, At: form.At, Took: time.Duration(form.TookMS) * time.Millisecond,
		FirstByte: time.Duration(form.FirstByteMS) * time.Millisecond, Prompt: form.Prompt, Cached: form.Cached, Completion: form.Completion, Cost: form.Cost,
		Shown: form.Shown, Left: form.Left, Window: form.Window, FinishReason: form.FinishReason, CallID: form.CallID, Error: form.Error, Failure: form.Failure,
		Answer: form.Answer, By: form.By,
	}
}

// message converts the form back to a message.
func (form Message) message() *conversation.Message {
	m := &conversation.Message{
		Seq: form.Seq, At: form.At, Role: form.Role, Content: form.Content, ToolCallID: form.ToolCallID, ToolName: form.Name, Failed: form.Failed,
		SourceID: form.SourceID, Tokens: form.Tokens, State: form.State, SetAside: form.SetAside, Internal: form.Internal, FinishReason: form.FinishReason, Reasoning: form.Reasoning,
		RunID: form.Run, Metadata: metadata.Object(form.Metadata), Stopped: form.State == "stopped",
	}
	if form.Sender != nil {
		m.Sender = *form.Sender
	}
	if form.Note != nil {
		m.Note = state.Told(*form.Note)
	}
	for _, call := range form.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, conversation.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	for _, image := range form.Images {
		m.Images = append(m.Images, media.Image{Name: image.Name, MediaType: image.MediaType, Size: image.Size, Data: image.Data})
	}
	for _, f := range form.Files {
		m.Files = append(m.Files, media.File{
			Name: f.Name, MediaType: f.MediaType, Size: f.Size, Lines: f.Lines, Body: f.Body, Problem: f.Problem, Data: f.Data,
		})
	}
	return m
}
