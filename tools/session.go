package tools

import (
	"context"

	"parley/conversation"
)

// Session is the session in which a tool is called. A tool must not show anything of
// another one.
type Session struct {
	Key          conversation.Key
	Conversation string // ID of the active conversation
	Window       int    // tokens that one model call may have; 0 = not known

	Asked conversation.Inbound // the newest message that the run answers; its sender is the person who asks
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

type callKey struct{}

// WithCallKey returns a context for one tool call with its idempotency key: the same when the
// call is made again after a crash, and another one for every other call.
func WithCallKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, callKey{}, key)
}

// CallKeyOf returns the key that WithCallKey has put into the context, "" when there is none.
func CallKeyOf(ctx context.Context) string {
	key, _ := ctx.Value(callKey{}).(string)
	return key
}
