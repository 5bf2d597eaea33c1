package conversation

import (
	"encoding/json"
	"time"

	"parley/conversation/internal/db"
)

// StepKind is what a step of a run was.
type StepKind string

const (
	StepModel StepKind = "model"
	StepTool  StepKind = "tool"
)

// Step is one thing that a run did: a call of a model, each try of its own, or
// a call of a tool. Times are kept in milliseconds.
type Step struct {
	Kind  StepKind
	Name  string // of the model, as its server names it, or of the tool
	At    time.Time
	Took  time.Duration
	Error string // how it failed, without secrets; "" when it did not

	// Of a model call:
	FirstByte  time.Duration // until the first piece of the answer, 0 when none came
	Prompt     int           // tokens, as the server counted them
	Completion int
	Shown      int64 // messages of the conversation in the window
	Left       int64 // older ones that it left out
	Window     int   // tokens that the window was counted to have

	FinishReason FinishReason // of a model call: why its answer is not whole

	CallID string // of a tool call, as in the message that asked for it
}

// storedStep is a step as it is stored: every run has one at least, so that the
// names are short, and what the run says already is left out.
type storedStep struct {
	Tool       bool   `json:"tool,omitempty"`
	Name       string `json:"name,omitempty"` // unless it is the run's model
	At         int64  `json:"at,omitempty"`   // after the run's start, milliseconds
	Took       int64  `json:"took,omitempty"`
	FirstByte  int64  `json:"first,omitempty"`
	Prompt     int    `json:"in,omitempty"`
	Completion int    `json:"out,omitempty"`
	Shown      int64  `json:"shown,omitempty"`
	Left       int64  `json:"left,omitempty"`
	Window     int    `json:"window,omitempty"`
	CallID     string `json:"call,omitempty"`
	Error      string `json:"error,omitempty"`

	FinishReason FinishReason `json:"finish,omitempty"`
}

// encodeSteps returns the steps of a run as they are stored.
func encodeSteps(run Run) ([]byte, error) {
	if len(run.Steps) == 0 {
		return nil, nil
	}
	stored := make([]storedStep, len(run.Steps))
	for i, s := range run.Steps {
		stored[i] = storedStep{
			Tool:       s.Kind == StepTool,
			Name:       db.Text(s.Name),
			At:         s.At.Sub(run.StartedAt).Milliseconds(),
			Took:       s.Took.Milliseconds(),
			FirstByte:  s.FirstByte.Milliseconds(),
			Prompt:     s.Prompt,
			Completion: s.Completion,
			Shown:      s.Shown,
			Left:       s.Left,
			Window:     s.Window,
			CallID:     db.Text(s.CallID),
			Error:      db.Text(s.Error),

			FinishReason: s.FinishReason,
		}
		if s.Kind == StepModel && s.Name == run.Model {
			stored[i].Name = ""
		}
	}
	return json.Marshal(stored)
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
