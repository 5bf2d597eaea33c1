package conversation

import (
	"encoding/json"
	"errors"
	"time"

	"parley/conversation/internal/db"
)

// Status is how a run ended.
type Status string

const (
	StatusDone    Status = "done"
	StatusFailed  Status = "failed"  // the model gave no answer; the user's messages are kept
	StatusStopped Status = "stopped" // ended by /stop
)

// Kind is what a run was.
type Kind string

const (
	KindAgent   Kind = "agent"
	KindCommand Kind = "command"
)

// The states of a message row beside the ordinary one, "".
const (
	stateStopped  = "stopped"
	stateReplaced = "replaced"
	stateUndone   = "undone"
)

// Effect is what a command does to its session's conversations. The zero value
// does nothing.
type Effect struct {
	Archive bool   // the active conversation is archived and a fresh one begins
	Carry   Carry  // with Archive: what the fresh one begins with
	Title   string // of the fresh one; without Archive, of the run's conversation from now on
	Delete  bool   // the run's conversation is deleted for good, with every copy of its words
	Resume  string // the session's conversation with this ID is its active one from now on; "" = as it is
	Replace int64  // the answer after this seq is replaced by the run's; 0 = nothing
	Undo    int64  // the messages from this seq on are taken out of the talk before the run's are added, and kept; 0 = none
}

// Run is one finished cycle of the agent, or one command. Commit stores it whole or not at all.
type Run struct {
	Key          Key
	Kind         Kind
	Status       Status
	Took         []Inbound // what it settles, in order; never empty
	Conversation Conversation
	Title        string // for a conversation that has none yet
	Effect       Effect
	Messages     []Message // in order; Seq and RunID are given by Commit
	Events       []Event   // what the messages add to the conversation's state
	Window       Window    // of the run's calls; zero = as it was
	Replies      []Delivery
	Model        string
	Rounds       int // model calls
	Prompt       int // tokens, as the server counted them
	Completion   int
	Steps        []Step
	FinishReason FinishReason // why its answer is not whole
	Error        string       // for the operator, without secrets
	StartedAt    time.Time
}

// ID returns the run's number, which is that of the first inbound that it took. So it is known before the commit, and
// the same when the run begins again after a crash. What a program appends takes no inbound and has the number 0.
func (r Run) ID() int64 {
	if len(r.Took) == 0 {
		return 0
	}
	return r.Took[0].ID
}

// Committed is what Commit has made of a run.
type Committed struct {
	Replies      []Delivery   // due now
	Conversation Conversation // as the run left it
	Messages     []Message    // of the run, with Seq and RunID
}

// ErrSettled says that nothing of a run was stored because an inbound of it is settled already: an earlier try of the
// same commit succeeded.
var ErrSettled = errors.New("the run's messages are settled already")

// StepKind is what a step of a run was.
type StepKind string

const (
	StepModel StepKind = "model"
	StepTool  StepKind = "tool"
)

// Purpose is what a model call was made for: "" for an answer.
type Purpose string

const (
	PurposeTitle   Purpose = "title"
	PurposeSummary Purpose = "summary"
)

// Step is one model call or one tool call of a run. Each try of a model call is a step of its own. Times are stored in
// milliseconds.
type Step struct {
	Kind  StepKind
	Name  string // of the model, as its server names it, or of the tool
	At    time.Time
	Took  time.Duration
	Error string // how it failed, without secrets; "" when it did not

	// Of a model call:
	Purpose    Purpose
	FirstByte  time.Duration // until the first piece of the answer, 0 when none came
	Prompt     int           // tokens, as the server counted them
	Completion int
	Shown      int64 // messages of the conversation in the window
	Left       int64 // older ones that it left out
	Window     int   // tokens that the window was counted to have

	FinishReason FinishReason // of a model call: why its answer is not whole

	CallID string // of a tool call, as in the message that asked for it
}

// storedStep is a step as it is stored. Every run has at least one, so the names are short, and what the run's row has
// already is left out.
type storedStep struct {
	Tool       bool    `json:"tool,omitempty"`
	Name       string  `json:"name,omitempty"` // unless it is the run's model
	At         int64   `json:"at,omitempty"`   // after the run's start, milliseconds
	Took       int64   `json:"took,omitempty"`
	FirstByte  int64   `json:"first,omitempty"`
	Purpose    Purpose `json:"for,omitempty"`
	Prompt     int     `json:"in,omitempty"`
	Completion int     `json:"out,omitempty"`
	Shown      int64   `json:"shown,omitempty"`
	Left       int64   `json:"left,omitempty"`
	Window     int     `json:"window,omitempty"`
	CallID     string  `json:"call,omitempty"`
	Error      string  `json:"error,omitempty"`

	FinishReason FinishReason `json:"finish,omitempty"`
}

// encodeSteps returns the steps of a run as they are stored.
func encodeSteps(run Run) ([]byte, error) {
	if len(run.Steps) == 0 {
		return nil, nil
	}
	stored := make([]storedStep, len(run.Steps))
	for i, s := range run.Steps {
		stored[i] = storedStepOf(s, run.StartedAt)
		if s.Kind == StepModel && s.Name == run.Model {
			stored[i].Name = ""
		}
	}
	return json.Marshal(stored)
}

// storedStepOf returns a step as it is stored, with times that follow on the start.
func storedStepOf(s Step, started time.Time) storedStep {
	return storedStep{
		Tool:       s.Kind == StepTool,
		Name:       db.Text(s.Name),
		At:         s.At.Sub(started).Milliseconds(),
		Took:       s.Took.Milliseconds(),
		FirstByte:  s.FirstByte.Milliseconds(),
		Purpose:    s.Purpose,
		Prompt:     s.Prompt,
		Completion: s.Completion,
		Shown:      s.Shown,
		Left:       s.Left,
		Window:     s.Window,
		CallID:     db.Text(s.CallID),
		Error:      db.Text(s.Error),

		FinishReason: s.FinishReason,
	}
}

// DecodeSteps returns the steps of a run from the column steps of its row, given the
// run's model and its start.
func DecodeSteps(text []byte, model string, started time.Time) ([]Step, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var stored []storedStep
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, err
	}
	steps := make([]Step, len(stored))
	for i, s := range stored {
		steps[i] = Step{
			Kind:       StepModel,
			Name:       s.Name,
			At:         started.Add(time.Duration(s.At) * time.Millisecond),
			Took:       time.Duration(s.Took) * time.Millisecond,
			FirstByte:  time.Duration(s.FirstByte) * time.Millisecond,
			Purpose:    s.Purpose,
			Prompt:     s.Prompt,
			Completion: s.Completion,
			Shown:      s.Shown,
			Left:       s.Left,
			Window:     s.Window,
			CallID:     s.CallID,
			Error:      s.Error,

			FinishReason: s.FinishReason,
		}
		switch {
		case s.Tool:
			steps[i].Kind = StepTool
		case s.Name == "":
			steps[i].Name = model
		}
	}
	return steps, nil
}
