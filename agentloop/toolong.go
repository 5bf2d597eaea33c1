package agentloop

import (
	"fmt"
	"unicode/utf8"

	"parley/agentloop/window"
	"parley/llm"
)

// shrink lowers the budget until the list is smaller than the refused one. It
// returns false when no smaller list would make sense.
func (g *generation) shrink(refused window.List, limit int) (ok bool) {
	g.budget, ok = g.window.Shrink(g.budget, refused, limit, g.calibration())
	return ok
}

// tooLong returns the error of a run whose question is refused as too long, even
// with nothing else in the list.
func (g *generation) tooLong(failure *llm.Error, sent window.List) error {
	told := *failure
	told.Err = fmt.Errorf("%w; the last list had %d tokens, %d of them for the system prompt, the tools and the frame: "+
		"check context_window and max_output_tokens in [llm], and the limits of the server", failure.Err, sent.Tokens, g.window.Fixed())
	told.User = "The model's server refuses this message as too long, even without the rest of the conversation. Please tell whoever runs this assistant."
	if question, found := g.window.Question(); found && question.Tokens > window.MinQuestion {
		length := utf8.RuneCountInString(question.Content)
		told.User = fmt.Sprintf("Your message is too long for the model: it has about %d characters, and even a part of about %d was refused. "+
			"Please shorten it, or send it in parts.", rounded(length), rounded(length*window.MinQuestion/question.Tokens))
	}
	return &told
}

// noRoom returns the error of a run whose budget has no room for the question.
func (g *generation) noRoom(sent window.List) error {
	return &llm.Error{
		Kind: llm.KindTooLong,
		User: "The assistant's own instructions leave no room for your message. Please tell whoever runs this assistant.",
		Err: fmt.Errorf("of the %d tokens that may be sent, %d are for the system prompt, the tools and the frame: "+
			"raise conversation.max_tokens or llm.context_window, or offer fewer tools", g.calibration().Budget(g.budget), g.window.Fixed()),
	}
}

// rounded returns a number with all but its first two digits replaced by zeros.
func rounded(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return n / unit * unit
}
