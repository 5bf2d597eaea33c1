package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// SessionStateName is the name of the tool SessionState.
const SessionStateName = "session_state"

// Record is what the model has recorded by a call of SessionState.
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

// ReadRecord parses the arguments of SessionState. The model reads the error.
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
		return r, fmt.Errorf("session_state needs a text: what was said, in one line")
	}
	return r, nil
}

// SessionState returns the tool by which the model records a decision or a rule in the
// session state, which it is shown in every run. The call only checks the arguments;
// the commit of the run stores the record.
func SessionState() Tool {
	return Tool{
		Name: SessionStateName,
		Description: "Keep a decision or a rule that somebody has just stated, so that you are reminded of it in every later turn. " +
			"One line in the words of the talk.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {
				"kind": {"type": "string", "enum": ["constraint", "decision", "withdraw"],
					"description": "constraint: a rule from now on; decision: what was decided; withdraw: one of them, in its exact words, no longer holds"},
				"text": {"type": "string", "description": "such as: never use an ORM"}
			},
			"required": ["kind", "text"],
			"additionalProperties": false
		}`),
		Call: func(_ context.Context, arguments json.RawMessage) (string, error) {
			r, err := ReadRecord(arguments)
			if err != nil {
				return "", err
			}
			if r.Kind == RecordWithdraw {
				return "Withdrawn.", nil
			}
			return "Kept.", nil
		},
	}
}
