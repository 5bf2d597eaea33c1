package tools

import (
	"context"

	"parley/conversation"
)

// Session is the session in which a tool is called. A tool must not show anything of
// another one.
type Session struct {
	Key          conversation.Key
	Conversation string // ID of the active one
	Window       int    // tokens that one model call may have; 0 = not known
}

type sessionKey struct{}

// WithSession returns a context for tool calls in a session.
func WithSession(ctx context.Context, s Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// SessionOf returns the session that WithSession has put into the context. ok is false
// when there is none.
func SessionOf(ctx context.Context) (s Session, ok bool) {
	s, ok = ctx.Value(sessionKey{}).(Session)
	return s, ok && s.Key != ""
}
