package discord

import (
	"cmp"
	"strings"

	"parley/channels"
	"parley/conversation"
)

// Locate implements channels.Locator.
func (*Channel) Locate(in conversation.Inbound) (p channels.Place) {
	key := string(cmp.Or(in.Origin, in.Key))
	if to, err := parseAddress(in.Address); err == nil {
		p.Server, p.Chat = to.Server, to.Within
	}
	if id, is := strings.CutPrefix(key, string(threadKey(""))); is {
		p.Thread = id
	} else if id, is := strings.CutPrefix(key, string(channelKey(""))); is {
		p.Chat = id
	}
	return p
}
