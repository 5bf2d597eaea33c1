package tools

import (
	"context"

	"parley/conversation"
)

// Place is the session in which a tool is called. A tool must not show anything of
// another session.
type Place struct {
	Key          conversation.Key
	Conversation string // ID of the active one
}

type placeKey struct{}

// In returns a context for tool calls in a place.
func In(ctx context.Context, place Place) context.Context {
	return context.WithValue(ctx, placeKey{}, place)
}

// PlaceOf returns the place that In has put into the context. ok is false when there
// is none.
func PlaceOf(ctx context.Context) (place Place, ok bool) {
	place, ok = ctx.Value(placeKey{}).(Place)
	return place, ok && place.Key != ""
}
