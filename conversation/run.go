package conversation

import (
	"time"

	"parley/conversation/state"
	"parley/conversation/steps"
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
	Steps        []steps.Step
	Instructions []string           // that were in force
	FinishReason steps.FinishReason // why its answer is not whole
	Error        string             // for the operator, without secrets
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
