package delivery

import (
	"context"

	"parley/channels"
	"parley/conversation"
)

// Discard returns the Sink of a channel that sends nothing, because its replies are read from
// the store. If replies are due on the channel nevertheless, such as the reply to a command
// that a page sends by itself, they are marked as sent.
func Discard(channel string) channels.Sink { return discard(channel) }

type discard string

func (d discard) Name() string { return string(d) }

func (discard) Split(conversation.Delivery) []channels.Part { return nil }

func (discard) Send(context.Context, conversation.Delivery, channels.Part) (string, error) {
	return "", nil
}
