package agentloop

import (
	"slices"

	"parley/conversation"
)

// One run answers a part of the messages that wait: those before the next command,
// and of these those of one origin. A session may span several places of one person,
// and the chats of several bots; each message is answered where it was written.

// isStop reports whether a message is the command /stop.
func isStop(in conversation.Inbound) bool {
	command, is := in.Command()
	return is && command.Name == "stop"
}

// untilCommand returns the messages before the next command.
func untilCommand(waiting []conversation.Inbound) []conversation.Inbound {
	for i, in := range waiting {
		if _, is := in.Command(); is {
			return waiting[:i]
		}
	}
	return waiting
}

// stopAfterTexts returns how many waiting messages, from the first on, end with a /stop that
// only texts precede. It returns 0 when the first command is another one, or there is none.
func stopAfterTexts(waiting []conversation.Inbound) int {
	n := len(untilCommand(waiting))
	if n < len(waiting) && isStop(waiting[n]) {
		return n + 1
	}
	return 0
}

// settledByStop returns the waiting messages that a /stop among them settles without an answer: the
// texts before it and the /stop itself. In a group it settles the texts of its sender alone, since the
// others still want their answers. It returns nothing where stopAfterTexts returns 0.
func settledByStop(waiting []conversation.Inbound) []conversation.Inbound {
	settled := waiting[:stopAfterTexts(waiting)]
	if len(settled) == 0 || !settled[len(settled)-1].Group {
		return settled
	}
	by := settled[len(settled)-1].Sender.ID
	return slices.DeleteFunc(slices.Clone(settled), func(in conversation.Inbound) bool { return in.Sender.ID != by })
}

// ofOneOrigin returns the waiting messages up to the first one of another origin.
func ofOneOrigin(waiting []conversation.Inbound) []conversation.Inbound {
	for i, in := range waiting {
		if !sameOrigin(in, waiting[0]) {
			return waiting[:i]
		}
	}
	return waiting
}

// nextToAnswer returns the waiting messages that the next run answers together: those
// before the next command, the next origin, and the next one that replaces a turn.
func nextToAnswer(waiting []conversation.Inbound) []conversation.Inbound {
	list := ofOneOrigin(untilCommand(waiting))
	for i, in := range list {
		if i > 0 && in.Replaces != (conversation.MessageID{}) {
			return list[:i]
		}
	}
	return list
}

// sameOrigin reports whether two messages were written in one place, to one bot.
func sameOrigin(a, b conversation.Inbound) bool {
	return a.Origin == b.Origin && a.Account == b.Account
}

// byOrigin groups messages by where they were written. The groups are in the order
// of their first messages.
func byOrigin(list []conversation.Inbound) [][]conversation.Inbound {
	var groups [][]conversation.Inbound
	for _, in := range list {
		i := slices.IndexFunc(groups, func(group []conversation.Inbound) bool { return sameOrigin(group[0], in) })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], in)
	}
	return groups
}

// without returns the messages of a list that are not among those taken.
func without(list, taken []conversation.Inbound) []conversation.Inbound {
	return slices.DeleteFunc(slices.Clone(list), func(in conversation.Inbound) bool {
		return slices.ContainsFunc(taken, func(t conversation.Inbound) bool { return t.ID == in.ID })
	})
}
