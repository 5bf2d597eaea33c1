package console

import (
	"context"
	"net/http"

	"parley/conversation"
)

// WindowFunc returns what the model would be sent for a session now.
type WindowFunc func(context.Context, conversation.Key) (Window, error)

// Window is what the model would be sent.
type Window struct {
	Conversation string                 // ID
	Messages     []conversation.Message // images without their bytes
	Tools        []string               // their names
	Left         int64                  // number of messages of the conversation that are not in the window
	Tokens       int
	Budget       int // tokens that the window may have
}

type windowPage struct {
	conversation.Conversation
	Tab    string // "window"
	AtWork bool
	Window
	Filled int  // tokens, in 1000ths of the budget
	Gone   bool // the conversation is archived: nothing of it is sent any more
}

// showWindow shows what the model would be sent for the session of an active
// conversation.
func (c *Console) showWindow(w http.ResponseWriter, r *http.Request) {
	of, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	p := windowPage{Conversation: of, Tab: "window", AtWork: of.Active && c.atWork(of.Key)}
	var err error
	if of.Active {
		p.Window, err = c.Window(r.Context(), of.Key)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	p.Gone = p.Window.Conversation != of.ID
	p.Filled = min(timelineWidth*p.Window.Tokens/max(p.Budget, 1), timelineWidth)
	c.show(w, r, "window.html", "sessions", titleOf(of), p)
}
