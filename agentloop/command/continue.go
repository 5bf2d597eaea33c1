package command

import (
	"context"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/steps"
)

// Continue is what the model is asked by /continue.
const Continue = "Go on exactly where your answer broke off, and repeat nothing of it."

var continueCommand = Command{
	Name: "continue", Description: "Go on with an answer that was cut off",
	ReadsTalk: true, Run: continueAnswer,
}

func continueAnswer(_ context.Context, _ Env, r Request) (Result, error) {
	turn := window.LastTurn(r.Snapshot.History)
	if len(turn) == 0 || !canContinue(turn[len(turn)-1]) {
		return Result{Text: "There is nothing to go on with: the last answer is whole."}, nil
	}
	return Result{Continue: true}, nil
}

// canContinue reports whether a message is an answer that the model can go on with.
func canContinue(m conversation.Message) bool {
	if m.Role != conversation.RoleAssistant {
		return false
	}
	return m.Stopped || m.FinishReason == steps.FinishLength || m.FinishReason == steps.FinishCutOff
}
