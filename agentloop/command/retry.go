package command

import (
	"context"

	"parley/agentloop/window"
)

var retryCommand = Command{
	Name: "retry", EndsRun: true, Description: "Answer the last message again, or all that got no answer",
	ReadsTalk: true, Run: retryTurn,
}

func retryTurn(_ context.Context, _ Env, r Request) (Result, error) {
	if len(window.UserMessages(window.LastTurn(r.Snapshot.History))) == 0 { // only programs have written yet
		return Result{Text: "There is nothing to answer again yet."}, nil
	}
	return Result{Retry: true}, nil
}
