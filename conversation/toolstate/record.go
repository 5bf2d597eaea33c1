package toolstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"parley/conversation/state"
)

// RecordTool is the name of the tool by which the model has something recorded.
const RecordTool = "session_state"

// Record holds the arguments of a call of RecordTool.
type Record struct {
	Kind string `json:"kind"` // constraint, decision or withdraw
	Text string `json:"text"`
}

// The kinds of a Record.
const (
	RecordConstraint = "constraint" // a rule that holds from now on
	RecordDecision   = "decision"
	RecordWithdraw   = "withdraw" // removes a rule or a decision, named by its exact text
)

// ReadRecord parses the arguments of RecordTool. The model reads the error.
func ReadRecord(arguments json.RawMessage) (Record, error) {
	var r Record
	if err := json.Unmarshal(arguments, &r); err != nil {
		return r, fmt.Errorf("session_state takes an object with kind and text: %w", err)
	}
	switch r.Kind {
	case RecordConstraint, RecordDecision, RecordWithdraw:
	default:
		return r, fmt.Errorf("session_state has no kind %q; allowed are constraint, decision, withdraw", r.Kind)
	}
	if strings.TrimSpace(r.Text) == "" {
		return r, errors.New("session_state needs a text: what was said, in one line")
	}
	return r, nil
}

// recordEvents returns the event of a call by which the model has something recorded.
func recordEvents(arguments, failure string) []state.Event {
	r, err := ReadRecord(json.RawMessage(arguments))
	if err != nil || failure != "" {
		return nil // the model was told
	}
	kind := map[string]state.EventKind{
		RecordConstraint: state.Constrained,
		RecordDecision:   state.Decided,
		RecordWithdraw:   state.Withdrawn,
	}[r.Kind]
	return []state.Event{{Kind: kind, Text: r.Text}}
}
