package telegram

import (
	"cmp"
	"strings"

	"parley/channels"
	"parley/conversation"
)

// Locate implements channels.Locator.
func (*Channel) Locate(in conversation.Inbound) (p channels.Place) {
	ids, is := strings.CutPrefix(string(cmp.Or(in.Origin, in.Key)), chatPrefix)
	if is {
		p.Chat, p.Topic, _ = strings.Cut(ids, ":topic:")
	}
	return p
}
