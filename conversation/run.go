package conversation

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"parley/conversation/state"

	"parley/conversation/internal/db"
	"parley/conversation/internal/runtotals"
)

// Status is how a run ended, or what has become of an inbound with Keep.
type Status string

const (
	StatusDone    Status = "done"
	StatusFailed  Status = "failed"  // the model gave no answer; the reply says so, and the user's messages are kept
	StatusStopped Status = "stopped" // ended by /stop

	StatusWaiting   Status = "waiting"   // of an inbound: no run has settled it; one may be under way
	StatusWithdrawn Status = "withdrawn" // of an inbound: taken back before a run settled it
	StatusGone      Status = "gone"      // of an inbound: its answer was deleted with the conversation
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
	Archive bool        // the active conversation is archived and a fresh one begins
	Carry   state.Carry // with Archive: what the fresh one begins with
	Title   string      // of the fresh one; without Archive, of the run's conversation from now on
	Delete  bool        // the run's conversation is deleted for good, with every copy of its words
	Resume  string      // the session's conversation with this ID is its active one from now on; "" = as it is
	Replace int64       // the answer after this seq is replaced by the run's; 0 = nothing
	Undo    int64       // the messages from this seq on are taken out of the talk before the run's are added, and kept; 0 = none
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
	Messages     []Message     // in order; Seq and RunID are given by Commit
	Events       []state.Event // what the messages add to the conversation's state
	Window       Window        // of the run's calls; zero = as it was
	Replies      []Delivery
	Model        string
	Rounds       int // model calls
	Prompt       int // tokens, as the server counted them
	Cached       int // of Prompt: those that the server took from its cache
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

// Committed is what Commit or Append has stored.
type Committed struct {
	Replies      []Delivery   // due now
	Conversation Conversation // as it is then
	Messages     []Message    // with Seq and RunID
	Repeated     bool         // by Append: it was stored before
}

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
	Cached     int           // of Prompt: those that the server took from its cache
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
	Cached     int     `json:"cached,omitempty"`
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
		Cached:     s.Cached,
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
			Cached:     s.Cached,
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

// Background is model calls that were made behind the commit of a run, for a title or a
// summary.
type Background struct {
	Conversation string // ID
	Run          int64  // behind which they were made
	Channel      string // by which the run's messages came
	Person       Sender // who wrote the first of them
	Steps        []Step
}

// AddBackground stores model calls with their run and adds their tokens to the sums. Of
// a conversation that was deleted meanwhile, only the sums are kept.
func (s *Store) AddBackground(ctx context.Context, b Background) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, step := range b.Steps {
			if err := addBackground(ctx, tx, b, step, db.Millis(s.now())); err != nil {
				return fmt.Errorf("add a call behind run %d: %w", b.Run, err)
			}
		}
		return nil
	})
}

func addBackground(ctx context.Context, tx *sql.Tx, b Background, step Step, now int64) error {
	text, err := json.Marshal(storedStepOf(step, step.At))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO background_steps (conversation_id, run_id, step, started_at) SELECT id, ?, ?, ? FROM conversations WHERE uuid = ? AND deleted = 0`,
		b.Run, string(text), db.Millis(step.At), b.Conversation)
	if err != nil {
		return err
	}
	return runtotals.AddCall(ctx, tx, runtotals.Call{
		At: now, Channel: b.Channel, Person: b.Person.ID, Name: db.Text(b.Person.Name), Model: db.Text(step.Name), Prompt: step.Prompt, Cached: step.Cached,
		Completion: step.Completion,
	})
}
