package tools

import (
	"context"

	"parley/conversation/approvals"
)

// NeedsInput is the error of a call whose server wants to know something of people first. The
// call is made again with the answers, see WithInput.
type NeedsInput struct {
	Forms []approvals.Form // the forms to fill in; the call is made again when all are answered
	Held  bool             // the call stays under way in this process until the answers come, or Tool.Forget is called
}

func (e *NeedsInput) Error() string {
	return "the server " + e.Forms[0].Server + " wants to ask the user"
}

// Input is what people have answered to the forms of a call.
type Input struct {
	State   string // see approvals.Form.State
	Held    bool   // see NeedsInput.Held
	Answers map[string]InputAnswer
}

// InputAnswer is the answer to a form, by its Request.
type InputAnswer struct {
	Action  string         // accept, decline or cancel
	Content map[string]any // values of an accepted form, by the names of its fields
}

// The actions of an InputAnswer.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
)

type inputKey struct{}

// WithInput returns a context for a tool call that needed input and goes on with it.
func WithInput(ctx context.Context, input Input) context.Context {
	return context.WithValue(ctx, inputKey{}, input)
}

// InputOf returns the input that WithInput has put into the context. ok is false when there is
// none.
func InputOf(ctx context.Context) (input Input, ok bool) {
	input, ok = ctx.Value(inputKey{}).(Input)
	return input, ok
}

// Forget ends a call that is held under way for its input, which will not come. The key is that
// of WithCallKey.
func (r *Registry) Forget(name, key string) {
	if t, known := r.Find(name); known && t.Forget != nil {
		t.Forget(key)
	}
}
