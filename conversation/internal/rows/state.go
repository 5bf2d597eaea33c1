package rows

// The states of a row of messages; an ordinary one has "".
const (
	Stopped  = "stopped"  // cut short by /stop, and part of the talk
	Replaced = "replaced" // an answer that another one replaces
	Undone   = "undone"   // taken back by /undo
)
