package command

import "context"

// stopCommand ends the run that is under way. The loop ends it as soon as the message is
// stored; Run is only called when there was no run.
var stopCommand = Command{Name: "stop", Description: "Stop the answer that is being written", Run: nothingToStop}

func nothingToStop(context.Context, Env, Request) (Result, error) {
	return Result{Text: "Nothing is running."}, nil
}
