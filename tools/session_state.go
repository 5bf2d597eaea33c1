package tools

import (
	"context"
	"encoding/json"

	"parley/conversation/toolstate"
)

// SessionStateName is the name of the tool SessionState.
const SessionStateName = toolstate.RecordTool

// SessionState returns the tool by which the model records a decision or a rule in the
// session state, which it is shown in every run. The call only checks the arguments;
// the commit of the run stores the record.
func SessionState() Tool {
	return Tool{
		Name:       SessionStateName,
		Repeatable: true,
		ReadOnly:   true,
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
		Call: Text(func(_ context.Context, arguments json.RawMessage) (string, error) {
			r, err := toolstate.ReadRecord(arguments)
			if err != nil {
				return "", err
			}
			if r.Kind == toolstate.RecordWithdraw {
				return "Withdrawn.", nil
			}
			return "Kept.", nil
		}),
	}
}
