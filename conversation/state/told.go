package state

// Told is what the model was told of the session in front of a message. It is told the same
// with the message in every later call, so that these repeat the one before, and what has not
// changed since is not told again.
type Told struct {
	Place   string  `json:"place,omitempty"`   // where the conversation takes place
	State   string  `json:"state,omitempty"`   // the session state in YAML
	Numbers []int64 `json:"numbers,omitempty"` // numbers of the rules and decisions in State
}

// IsZero reports whether nothing was told.
func (t Told) IsZero() bool { return t.Place == "" && t.State == "" }
