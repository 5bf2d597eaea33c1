package command

import (
	"context"
	"fmt"
	"strings"

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
	said := window.UserMessages(window.LastTurn(r.Snapshot.History))
	if len(said) == 0 { // only programs have written yet
		return Result{Text: "There is nothing to take back."}, nil
	}
	return Result{
		Text:   fmt.Sprintf("Taken back: %s and what followed. The assistant does not see it any more.", undone(said)),
		Effect: conversation.Effect{Undo: said[0].Seq},
	}, nil
}

// undone names the messages that are taken back: a turn may have those of several people.
func undone(said []conversation.Message) string {
	const most = 5
	var list []string
	for _, m := range said[:min(len(said), most)] {
		text := quoted(plaintext.ShortLine(m.Content, 80))
		if m.Sender != (conversation.Sender{}) {
			text += " (" + window.SenderName(m.Sender) + ")"
		}
		list = append(list, text)
	}
	if more := len(said) - most; more > 0 {
		list = append(list, plural(int64(more), "further message"))
	}
	return strings.Join(list, ", ")
}
