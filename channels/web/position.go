package web

import (
	"strconv"
	"strings"
)

// position is how much of a chat a page has. All of it are numbers of the
// store, so that a page goes on where it was after the gateway's restart.
type position struct {
	Conversation string // ID, "" for one that nothing was said in
	Seq          int64  // of the newest message
	Notice       int64  // ID of the newest notice
}

// String is the position as the id of an event.
func (p position) String() string {
	return p.Conversation + "/" + strconv.FormatInt(p.Seq, 10) + "/" + strconv.FormatInt(p.Notice, 10)
}

// readPosition reads what String has written.
func readPosition(text string) (p position, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return p, false
	}
	seq, seqErr := strconv.ParseInt(parts[1], 10, 64)
	notice, noticeErr := strconv.ParseInt(parts[2], 10, 64)
	return position{parts[0], seq, notice}, seqErr == nil && noticeErr == nil
}

// has reports whether a page at the position has an entry already.
func (p position) has(e entry) bool {
	if e.Kind == kindNotice {
		id, _ := strconv.ParseInt(e.ID[1:], 10, 64) // made of a number
		return id <= p.Notice
	}
	return e.Seq <= p.Seq
}
