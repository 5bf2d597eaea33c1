package command

import (
	"context"
	"fmt"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/steps"
)

// Continue is what the model is asked by /continue.
const Continue = "Go on exactly where your answer broke off, and repeat nothing of it."

var continueCommand = Command{
	Name: "continue", Description: "Go on with an answer that was cut off",
	ReadsTalk: true, Run: continueAnswer,
}

func continueAnswer(ctx context.Context, env Env, r Request) (Result, error) {
	open, err := approvals.New(env.Store).Open(ctx, r.Session)
	if err != nil {
		return Result{}, err
	}
	if len(open) > 0 { // a session has one run at a time
		return Result{Text: fmt.Sprintf("Question %d is open. Answer it first.", open[0].ID)}, nil
	}
	turn := window.LastTurn(r.Snapshot.History)
	if len(turn) == 0 || !canContinue(turn[len(turn)-1]) {
		return Result{Text: "There is nothing to go on with: the last answer is whole."}, nil
	}
	return Result{Continue: true}, nil
}

// canContinue reports whether a message is an answer that the model can go on with. The last
// one is a result of a tool if the run ended before the model read it.
func canContinue(m conversation.Message) bool {
	switch m.Role {
	case conversation.RoleTool:
		return true
	case conversation.RoleAssistant:
		return m.Stopped || m.FinishReason == steps.FinishLength || m.FinishReason == steps.FinishCutOff
	}
	return false
}
