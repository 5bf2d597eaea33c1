// Package steps describes what a run has called, the model or a tool, and how the store encodes it.
package steps

import (
	"encoding/json"
	"slices"
	"time"

	"parley/conversation/internal/db"
)

// FinishReason says why the model ended an answer before it was whole, in the
// words of the chat completions API; "" for a whole one.
type FinishReason string

const (
	FinishLength        FinishReason = "length"         // the limit of tokens was reached
	FinishContentFilter FinishReason = "content_filter" // the model's provider withheld the rest
	FinishCutOff        FinishReason = "cut_off"        // the stream broke off
)

// Words returns the reason in words for people, "" for a whole answer.
func (r FinishReason) Words() string {
	switch r {
	case FinishLength:
		return "cut off at the length limit"
	case FinishContentFilter:
		return "cut off by the content filter"
	case FinishCutOff:
		return "broke off in the middle"
	}
	return ""
}

// Kind says what was called.
type Kind string

const (
	Model Kind = "model"
	Tool  Kind = "tool"

	// Resumed is no call: the gateway stopped here, and a later process went on.
	Resumed Kind = "resumed"

	// Approval is no call either: a person was asked whether a tool may be called.
	Approval Kind = "approval"
)

// Purpose says what a model call was made for: "" for an answer.
type Purpose string

const (
	PurposeTitle         Purpose = "title"
	PurposeSummary       Purpose = "summary"
	PurposeTranscription Purpose = "transcription" // transcription of a recording
)

// Step is one model call or one tool call of a run, or what came between them. Each try of a model call is a step of its own. Times are stored in
// milliseconds.
type Step struct {
	Kind  Kind
	Name  string // name of the model, as its server gives it, or of the tool
	At    time.Time
	Took  time.Duration
	Error string // how the step failed, without secrets; "" if it did not

	// Failure is the kind of failure of a model call, in a word for programs, as package llm names it; "" = it did not fail,
	// or the step is from before kinds were recorded.
	Failure string

	// Of a model call:
	Purpose    Purpose
	FirstByte  time.Duration // time until the first piece of the answer; 0 if none came
	Prompt     int           // tokens, as the server counted them
	Cached     int           // tokens of Prompt that the server took from its cache
	Completion int
	Cost       *int64 // billionths of the currency of the prices, by the price of its time; nil = there was none
	Shown      int64  // messages of the conversation in the window
	Left       int64  // older messages that the window left out
	Window     int    // tokens that the window was counted to have

	FinishReason FinishReason // of a model call: why its answer is incomplete

	CallID string // ID of a tool call, as in the message that asked for it

	// Of an approval, which took until the answer:
	Answer string // allowed, denied, expired or cancelled
	By     string // the name of who answered, "" when nobody did
}

// storedStep is a step as it is stored. Every run has at least one, so the names are short, and what the run's row has
// already is left out.
type storedStep struct {
	Tool       bool    `json:"tool,omitempty"`
	Resumed    bool    `json:"resumed,omitempty"`
	Name       string  `json:"name,omitempty"` // Step.Name; "" if it is the run's model
	At         int64   `json:"at,omitempty"`   // milliseconds after the run's start
	Took       int64   `json:"took,omitempty"`
	FirstByte  int64   `json:"first,omitempty"`
	Purpose    Purpose `json:"for,omitempty"`
	Prompt     int     `json:"in,omitempty"`
	Cached     int     `json:"cached,omitempty"`
	Completion int     `json:"out,omitempty"`
	Cost       *int64  `json:"cost,omitempty"`
	Shown      int64   `json:"shown,omitempty"`
	Left       int64   `json:"left,omitempty"`
	Window     int     `json:"window,omitempty"`
	CallID     string  `json:"call,omitempty"`
	Error      string  `json:"error,omitempty"`
	Failure    string  `json:"failure,omitempty"`
	Approval   bool    `json:"approval,omitempty"`
	Answer     string  `json:"answer,omitempty"`
	By         string  `json:"by,omitempty"`

	FinishReason FinishReason `json:"finish,omitempty"`
}

// Encode returns the steps of a run as the column steps of its row has them, given the run's model and its start. It
// returns nil for no steps.
func Encode(list []Step, model string, started time.Time) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	stored := make([]storedStep, len(list))
	for i, s := range list {
		stored[i] = storedStepOf(s, started)
		if s.Kind == Model && s.Name == model {
			stored[i].Name = ""
		}
	}
	return json.Marshal(stored)
}

// EncodeOne returns a step that is stored by itself. [Decode] reads it as the only element of a list, without a model,
// with the step's own start.
func EncodeOne(s Step) ([]byte, error) { return json.Marshal(storedStepOf(s, s.At)) }

// storedStepOf returns a step as it is stored, with its start counted from that of the run.
func storedStepOf(s Step, started time.Time) storedStep {
	return storedStep{
		Tool:       s.Kind == Tool,
		Resumed:    s.Kind == Resumed,
		Approval:   s.Kind == Approval,
		Answer:     db.Text(s.Answer),
		By:         db.Text(s.By),
		Name:       db.Text(s.Name),
		At:         s.At.Sub(started).Milliseconds(),
		Took:       s.Took.Milliseconds(),
		FirstByte:  s.FirstByte.Milliseconds(),
		Purpose:    Purpose(db.Text(string(s.Purpose))),
		Prompt:     s.Prompt,
		Cached:     s.Cached,
		Completion: s.Completion,
		Cost:       s.Cost,
		Shown:      s.Shown,
		Left:       s.Left,
		Window:     s.Window,
		CallID:     db.Text(s.CallID),
		Error:      db.Text(s.Error),
		Failure:    db.Text(s.Failure),

		FinishReason: FinishReason(db.Text(string(s.FinishReason))),
	}
}

// Decode returns the steps that [Encode] has encoded, given the same model and start.
func Decode(text []byte, model string, started time.Time) ([]Step, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var stored []storedStep
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, err
	}
	list := make([]Step, len(stored))
	for i, s := range stored {
		list[i] = Step{
			Kind:       Model,
			Name:       s.Name,
			At:         started.Add(time.Duration(s.At) * time.Millisecond),
			Took:       time.Duration(s.Took) * time.Millisecond,
			FirstByte:  time.Duration(s.FirstByte) * time.Millisecond,
			Purpose:    s.Purpose,
			Prompt:     s.Prompt,
			Cached:     s.Cached,
			Completion: s.Completion,
			Cost:       s.Cost,
			Shown:      s.Shown,
			Left:       s.Left,
			Window:     s.Window,
			CallID:     s.CallID,
			Answer:     s.Answer,
			By:         s.By,
			Error:      s.Error,
			Failure:    s.Failure,

			FinishReason: s.FinishReason,
		}
		switch {
		case s.Tool:
			list[i].Kind = Tool
		case s.Resumed:
			list[i].Kind = Resumed
		case s.Approval:
			list[i].Kind = Approval
		case s.Name == "":
			list[i].Name = model
		}
	}
	return list, nil
}

// Cost returns what model calls have cost together, nil if one of them used tokens without a price.
func Cost(list []Step) *int64 {
	sum := int64(0)
	for _, s := range list {
		switch {
		case s.Cost != nil:
			sum += *s.Cost
		case s.Prompt+s.Completion > 0:
			return nil
		}
	}
	return &sum
}

// Waited returns how long a run has waited for the answers of people: the time in which at least one question was open.
func Waited(list []Step) (waited time.Duration) {
	var until time.Time
	for _, s := range slices.SortedFunc(slices.Values(list), func(a, b Step) int { return a.At.Compare(b.At) }) {
		if s.Kind != Approval {
			continue
		}
		from, end := s.At, s.At.Add(s.Took)
		if from.Before(until) {
			from = until
		}
		if end.After(from) {
			waited, until = waited+end.Sub(from), end
		}
	}
	return waited
}
