package agentloop

import (
	"slices"

	"parley/conversation"
)

// A session may span several places of one person. Each message is answered
// where it was written.

// ofOnePlace is what of the waiting messages one run answers: the first one's
// place, up to the first message from another.
func ofOnePlace(waiting []conversation.Inbound) []conversation.Inbound {
	for i, in := range waiting {
		if in.Origin != waiting[0].Origin {
			return waiting[:i]
		}
	}
	return waiting
}

// byPlace parts messages by where they were written, in the order of each
// place's first.
func byPlace(list []conversation.Inbound) [][]conversation.Inbound {
	var places [][]conversation.Inbound
	for _, in := range list {
		i := slices.IndexFunc(places, func(place []conversation.Inbound) bool { return place[0].Origin == in.Origin })
		if i < 0 {
			i, places = len(places), append(places, nil)
		}
		places[i] = append(places[i], in)
	}
	return places
}
