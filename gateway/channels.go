package gateway

import (
	"context"
	"io"

	"parley/channels"
	"parley/conversation"
)

// files fetches attachments through the channel that their message came by.
type files map[string]*served

func (f files) Fetch(ctx context.Context, channel string, file conversation.Attachment) (io.ReadCloser, error) {
	if fetcher, ok := f[channel].Source.(channels.Fetcher); ok {
		return fetcher.Fetch(ctx, file)
	}
	return nil, &conversation.GoneError{Words: "this channel has no files"}
}

// admins asks the channel that a message came by whether its sender administers
// the group.
type admins map[string]*served

func (a admins) IsAdmin(ctx context.Context, in conversation.Inbound) (bool, error) {
	if c, ok := a[in.Channel()].Source.(channels.AdminChecker); ok {
		return c.IsAdmin(ctx, in.Address, in.Sender.ID)
	}
	return false, nil
}
