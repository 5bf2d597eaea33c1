package agentloop

import (
	"slices"

	"parley/conversation"
)

// A session may span several places of one person, and the chats of several bots.
// Each message is answered where it was written.

// ofOnePlace is what of the waiting messages one run answers: the first one's
// place, up to the first message from another.
func ofOnePlace(waiting []conversation.Inbound) []conversation.Inbound {
	for i, in := range waiting {
		if !samePlace(in, waiting[0]) {
			return waiting[:i]
		}
	}
	return waiting
}

// samePlace reports whether two messages were written in one place, to one bot.
func samePlace(a, b conversation.Inbound) bool { return a.Origin == b.Origin && a.Account == b.Account }

// byPlace parts messages by where they were written, in the order of each
// place's first.
func byPlace(list []conversation.Inbound) [][]conversation.Inbound {
	var places [][]conversation.Inbound
	for _, in := range list {
		i := slices.IndexFunc(places, func(place []conversation.Inbound) bool { return samePlace(place[0], in) })
		if i < 0 {
			i, places = len(places), append(places, nil)
		}
		places[i] = append(places[i], in)
	}
	return places
}
