package gateway

import (
	"context"
	"errors"
	"io"

	"parley/channels"
	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
)

// fetchers fetch attachments through the channel that their message came by.
type fetchers map[string]*served

func (f fetchers) Fetch(ctx context.Context, channel string, file media.Attachment) (io.ReadCloser, error) {
	if f[channel] == nil {
		return nil, errors.New("its channel is not served now")
	}
	if fetcher, ok := f[channel].Source.(channels.Fetcher); ok {
		return fetcher.Fetch(ctx, file)
	}
	return nil, &files.GoneError{Words: "this channel has no files"}
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
