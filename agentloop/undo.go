package agentloop

import (
	"context"
	"fmt"

	"parley/agentloop/window"
	"parley/conversation"
)

// undoExchange takes the last exchange out of the window and of what people read
// here. The archive keeps it, marked.
func undoExchange(_ *loop, _ context.Context, turn conversation.Turn, arguments string) (result, error) {
	if arguments != "" {
		return result{text: "/undo takes back the last exchange, and nothing behind it; say it again for the one before."}, nil
	}
	last := window.LastExchange(turn.History)
	if len(usersOf(last)) == 0 { // nobody has asked yet, though a program may have written
		return result{text: "There is nothing to take back."}, nil
	}
	return result{
		text: fmt.Sprintf("Taken back: %s and what followed. The assistant does not see it any more.",
			quoted(window.OneLine(last[0].Content, 80))),
		effect: conversation.Effect{Undo: last[0].Seq},
	}, nil
}
