package llm

import "time"

// Attempt is one try of a model call: what it took, and how it ended. An answer
// may take several, of several models.
type Attempt struct {
	Model     string // as the server names it; of one that failed, as it was asked for
	At        time.Time
	Took      time.Duration
	FirstByte time.Duration // from At to the first piece of the answer; 0 when none came
	Usage     Usage

	FinishReason string // as of a Response; "" when there was no answer
	Err          error  // nil: it was answered; *Error, or what ended the call from outside
}

// attempted tells of an attempt.
func (r Request) attempted(a Attempt) {
	if r.Attempted != nil {
		r.Attempted(a)
	}
}
