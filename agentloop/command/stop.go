package command

import "context"

// stopCommand ends a run that is under way. The loop does that as soon as the message is
// stored; Run is only called when nothing was under way.
var stopCommand = Command{Name: "stop", Description: "Stop the answer that is being written", Run: nothingToStop}

func nothingToStop(context.Context, Env, Request) (Result, error) {
	return Result{Text: "Nothing is running."}, nil
}
