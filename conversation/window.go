package conversation

// Window is the part of a conversation that the model is shown, and how. It is stored
// with the conversation and stays as it is from run to run, so that each call of the
// model repeats the one before; when a call would exceed the budget, the run advances
// it. Package agentloop/window decides where it begins.
type Window struct {
	Start  int64 // seq of the first message that is shown; 0 = not chosen yet
	Cut    int   // tokens to which longer messages of the history are cut
	Budget int   // tokens that a call could have when the window was chosen
}

// tokens returns what a message takes of the window, at most.
func (w Window) tokens(m *Message) int {
	if w.Cut > 0 {
		return min(m.Tokens, w.Cut)
	}
	return m.Tokens
}

// trim returns the part of a history that a snapshot holds, and the number of the
// messages before it: from the window's start on, but always the newest turn, and
// no more whole turns than the budget has room for.
func (w Window) trim(history []Message, older int64, budget int) ([]Message, int64) {
	whole := len(history) // where the newest whole turns begin
	for i := len(history) - 1; i >= 0; i-- {
		m := &history[i]
		budget -= w.tokens(m)
		switch {
		case whole == len(history):
		case m.Seq < w.Start:
			return history[i+1:], w.Start - 1
		case budget < 0:
			return history[whole:], history[whole].Seq - 1
		}
		if i > 0 && m.StartsTurn(&history[i-1]) {
			whole = i
		}
	}
	return history, older
}
