package llm

import "time"

// Attempt is one attempt at a model call: how long it took and how it ended. An answer
// may need several, of several models.
type Attempt struct {
	Model     string // name of the model as the server gives it; the requested name where the attempt failed
	Asked     string // name of the model as the configuration has it, which also names its price
	At        time.Time
	Took      time.Duration
	FirstByte time.Duration // from At to the first piece of the answer; 0 when none came
	Usage     Usage

	FinishReason string // see Response.FinishReason; "" when there was no answer
	Err          error  // nil when it was answered; else an *Error, or the cause of the context's end
}

// attempted reports an attempt to the caller, if it asks for that.
func (r Request) attempted(a Attempt) {
	if r.Attempted != nil {
		r.Attempted(a)
	}
}
