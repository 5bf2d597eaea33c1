package tools

import (
	"context"

	"parley/conversation"
)

// Place is where a tool is called: whoever asks sees what belongs to it, and
// nothing else.
type Place struct {
	Key          conversation.Key
	Conversation string // ID of the one that goes on
}

type placeKey struct{}

// In makes a context for the calls of a place.
func In(ctx context.Context, place Place) context.Context {
	return context.WithValue(ctx, placeKey{}, place)
}

// PlaceOf is where a tool is called. ok is false when nobody has said.
func PlaceOf(ctx context.Context) (place Place, ok bool) {
	place, ok = ctx.Value(placeKey{}).(Place)
	return place, ok && place.Key != ""
}
