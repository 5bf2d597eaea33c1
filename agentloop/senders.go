package agentloop

import (
	"strings"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/plaintext"
)

// withDistinctNames returns the messages of a group. If two people in the window or the list
// have the same name, in any letter case, the platform's id is appended to the name of the
// person who wrote later.
func withDistinctNames(history []conversation.Message, took []conversation.Inbound) []conversation.Inbound {
	if len(took) == 0 || !took[0].Group {
		return took
	}
	holders := map[string]string{} // ids by name
	hold := func(s conversation.Sender) bool {
		name := strings.ToLower(window.SenderName(s))
		if holders[name] == "" {
			holders[name] = s.ID
		}
		return holders[name] == s.ID
	}
	for _, m := range history {
		if m.Sender.ID != "" {
			hold(m.Sender)
		}
	}
	told := make([]conversation.Inbound, len(took))
	for i, in := range took {
		told[i] = in
		if in.Sender.ID == "" {
			continue
		}
		other := conversation.Sender{ID: in.Sender.ID, Name: plaintext.ShortLine(window.SenderName(in.Sender), maxToldName) + " (" + in.Sender.ID + ")"}
		if isHeld := holders[strings.ToLower(other.Name)] == in.Sender.ID; isHeld || !hold(in.Sender) {
			hold(other)
			told[i].Sender = other
		}
	}
	return told
}

// maxToldName is the most characters of a name before an id, so that the id is not cut
// off.
const maxToldName = 30
