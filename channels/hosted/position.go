package hosted

import (
	"strconv"
	"strings"
)

// Position is how much of a session a client has received. It consists of numbers
// of the store, so that a stream continues there after the gateway's restart.
type Position struct {
	Conversation string // ID of the conversation; "" if it has no messages
	Seq          int64  // seq of the newest message
	Notice       int64  // ID of the newest notice
}

// String returns the position as the id of an event.
func (p Position) String() string {
	return p.Conversation + "/" + strconv.FormatInt(p.Seq, 10) + "/" + strconv.FormatInt(p.Notice, 10)
}

// ParsePosition reads what String has written.
func ParsePosition(text string) (p Position, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return p, false
	}
	seq, seqErr := strconv.ParseInt(parts[1], 10, 64)
	notice, noticeErr := strconv.ParseInt(parts[2], 10, 64)
	return Position{parts[0], seq, notice}, seqErr == nil && noticeErr == nil
}
