package gateway

import (
	"context"
	"errors"
	"time"

	"parley/channels/api"
	"parley/channels/cli"
	"parley/conversation"
	"parley/llm"
)

// How long the check of the model at the start may take: with a terminal, where a person
// waits for it, and in the background.
const (
	quickCheck   = 1500 * time.Millisecond
	patientCheck = 30 * time.Second
)

// modelProblem asks the model's server whether calls can work, and returns why they
// can't, for the operator. A server that takes too long is no problem yet.
func (g *Gateway) modelProblem(ctx context.Context, patience time.Duration) error {
	client, ok := g.models.List()[0].Model.(*llm.Client)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := client.Check(ctx)
	var failed *llm.Error
	if ctx.Err() != nil || !errors.As(err, &failed) {
		return nil
	}
	return failed.Brief()
}

// modelState is the state of a model. It does not affect whether the gateway is ready: messages are
// accepted in any case, and another model may answer them.
type modelState struct {
	State llm.State  `json:"state"`
	Error string     `json:"error,omitempty"` // error of the newest call, "" if it succeeded
	Since *time.Time `json:"since,omitempty"` // when the first of the latest failures in a row happened
}

// modelHealth returns the states of the models.
func (g *Gateway) modelHealth() []llm.Health {
	if g.models == nil {
		return nil
	}
	return g.models.Health()
}

// modelStates returns the states of the models by name, nil without any.
func (g *Gateway) modelStates() map[string]modelState {
	var states map[string]modelState
	for _, h := range g.modelHealth() {
		if states == nil {
			states = map[string]modelState{}
		}
		state := modelState{State: h.State, Error: g.secrets.Hide(h.Error)}
		if !h.Since.IsZero() {
			state.Since = &h.Since
		}
		states[h.Model] = state
	}
	return states
}

// isOfOperator reports whether only the operator talks in a session: whoever has a
// terminal of this machine reads its log, too.
func isOfOperator(key conversation.Key) bool { return key.Channel() == cli.ChannelName }

// isFromOperator reports whether a message came by the terminal of this machine, or by HTTP
// with the token.
func isFromOperator(in conversation.Inbound) bool {
	switch in.Channel() {
	case cli.ChannelName, api.ChannelName, "web":
		return true
	}
	return false
}
