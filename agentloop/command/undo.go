package command

import (
	"context"
	"fmt"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/plaintext"
)

var undoCommand = Command{
	Name: "undo", EndsRun: true, Description: "Take back the last turn; the archive keeps it",
	ReadsTalk: true, Run: undoTurn,
}

// undoTurn takes the last turn out of the window and of what people read here.
// The archive keeps it, marked.
func undoTurn(_ context.Context, _ Env, r Request) (Result, error) {
	if r.Arguments != "" {
		return Result{Text: "/undo takes back the last turn only. Send it again for the turn before."}, nil
	}
	last := window.LastTurn(r.Snapshot.History)
	if len(window.UserMessages(last)) == 0 { // only programs have written yet
		return Result{Text: "There is nothing to take back."}, nil
	}
	return Result{
		Text: fmt.Sprintf("Taken back: %s and what followed. The assistant does not see it any more.",
			quoted(plaintext.ShortLine(last[0].Content, 80))),
		Effect: conversation.Effect{Undo: last[0].Seq},
	}, nil
}
