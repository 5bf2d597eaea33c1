package agentloop

import (
	"strings"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/plaintext"
)

// toldApart returns the messages of a group with other names for senders whose name
// is another person's, who has written in the window or earlier in the list: the
// platform's id stands behind it. Letter case does not tell names apart.
func toldApart(history []conversation.Message, took []conversation.Inbound) []conversation.Inbound {
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

// maxToldName is the most characters of a name before an id, which must not be cut
// off with it.
const maxToldName = 30
