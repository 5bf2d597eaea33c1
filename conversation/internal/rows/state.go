package rows

// The states of a row of messages. An ordinary message has the state "".
const (
	Stopped  = "stopped"  // /stop cut it short; it is visible
	Replaced = "replaced" // it is set aside, since another version or branch replaces it
	Undone   = "undone"   // /undo took it back
	LeftOut  = "left_out" // too many at once: the model is not shown it; it is visible
)
