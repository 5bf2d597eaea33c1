package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/plaintext"
	"parley/tools"
)

// A server may ask people something in the middle of a call. The call then returns with
// tools.NeedsInput and stays under way, held, until it is made again with the answer: a person
// may take long, and the run of the session gives its place to others meanwhile.
//
// The protocol does not say which call a question belongs to. A person must not be asked what
// belongs to somebody else's call, so a question waits until only one call can have asked it.

// call is a request to a server under way.
type call struct {
	key     string // the key of tools.WithCallKey; "" = nobody can be asked on behalf of the call
	session tools.Session
	stop    context.CancelCauseFunc
	asks    chan *asking
	done    chan struct{} // closed when the call has ended

	result any // set, like err, before done is closed
	err    error

	// The mutex of the server guards these.
	conn   *connection // the connection that the call uses; nil before it has one
	asking *asking     // the question that the call waits for an answer to; nil: none
}

// asking is a question of a server.
type asking struct {
	needs  *tools.NeedsInput
	answer chan tools.InputAnswer // has room for one answer
}

var (
	errForgotten = errors.New("the run ended before somebody answered the server")
	errNotHeld   = errors.New("outcome unknown: the gateway stopped while the server waited for an answer of the user. It may have been done, in part or not at all; check before you do it again")
)

// conduct makes a request, or goes on with one that is held, until it has ended, ctx ends, or
// its server asks people.
func (s *server) conduct(ctx context.Context, request func(context.Context) (any, error)) (any, error) {
	key := tools.CallKeyOf(ctx)
	if input, _ := tools.InputOf(ctx); input.Held {
		return s.goOn(ctx, key, input)
	}
	session, _ := tools.SessionOf(ctx)
	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &call{key: key, session: session, stop: stop, asks: make(chan *asking), done: make(chan struct{})}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	go func() {
		defer stop(nil)
		c.result, c.err = request(context.WithValue(working, thisCall{}, c))
		s.mu.Lock()
		s.calls = slices.DeleteFunc(s.calls, func(other *call) bool { return other == c })
		close(c.done)
		s.moved()
		s.mu.Unlock()
	}()
	return s.follow(ctx, c)
}

// goOn tells the server of a held call what people have answered, and waits for the call.
func (s *server) goOn(ctx context.Context, key string, input tools.Input) (any, error) {
	c := s.take(key)
	if c == nil {
		return nil, errNotHeld
	}
	s.mu.Lock()
	asked := c.asking
	c.asking = nil
	s.mu.Unlock()
	asked.answer <- input.Answers[""]
	return s.follow(ctx, c)
}

type thisCall struct{}

// follow waits until a call has ended, ctx ends, or its server asks people.
func (s *server) follow(ctx context.Context, c *call) (any, error) {
	select {
	case <-c.done:
		return c.result, c.err
	case asked := <-c.asks:
		s.mu.Lock()
		s.held[c.key] = c
		s.mu.Unlock()
		return nil, asked.needs
	case <-ctx.Done():
		c.stop(context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}

// take returns the call that is held under a key, which is held no longer; nil for none.
func (s *server) take(key string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.held[key]
	delete(s.held, key)
	return c
}

// forget ends the call that is held under a key.
func (s *server) forget(key string) {
	if c := s.take(key); c != nil {
		c.stop(errForgotten)
	}
}

// moved wakes the questions that wait to know who asks. The caller holds mu.
func (s *server) moved() {
	close(s.move)
	s.move = make(chan struct{})
}

// elicit has people asked what the server wants to know, and returns their answer.
func (s *server) elicit(ctx context.Context, conn *connection, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
	p.Message = s.named.Hide(p.Message)
	form, err := formOf(s.name, p)
	if err != nil {
		s.refusals.Do(func() { s.log.Warn("question of an MCP server declined", "reason", err) })
		return &sdk.ElicitResult{Action: tools.Decline}, nil
	}
	asked := &asking{needs: &tools.NeedsInput{Held: true}, answer: make(chan tools.InputAnswer, 1)}
	asked.needs.Forms = append(asked.needs.Forms, form)
	c, err := s.asker(ctx, conn, asked)
	if err != nil {
		s.refusals.Do(func() { s.log.Warn("question of an MCP server not asked", "reason", err) })
		return &sdk.ElicitResult{Action: tools.Cancel}, nil
	}
	limit := time.NewTimer(s.options.AnswerTimeout)
	defer limit.Stop()
	select {
	case c.asks <- asked:
	case <-c.done:
	case <-ctx.Done():
	}
	select {
	case answer := <-asked.answer:
		return resultOfInput(answer), nil
	case <-limit.C: // the run has neither answered the question nor ended the call
		s.forget(c.key)
	case <-c.done:
	case <-ctx.Done():
	}
	return &sdk.ElicitResult{Action: tools.Cancel}, nil
}

// asker waits until it is known which call a question belongs to, and returns that call. It fails if
// that can't be known.
func (s *server) asker(ctx context.Context, conn *connection, asked *asking) (*call, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	candidates := slices.DeleteFunc(slices.Clone(s.calls), func(c *call) bool { return c.conn != conn || c.asking != nil })
	conn.unassigned++
	defer func() { conn.unassigned--; s.moved() }()
	s.moved()
	for {
		for _, c := range candidates {
			if isDone(c) && c.err != nil {
				return nil, errors.New("it belongs to one of several calls, one of which has failed")
			}
		}
		candidates = slices.DeleteFunc(candidates, func(c *call) bool { return c.asking != nil || isDone(c) })
		switch {
		case len(candidates) == 0:
			return nil, errors.New("it belongs to no call")
		case len(candidates) > 1 && conn.unassigned >= len(candidates) && !ofOneRun(candidates):
			return nil, errors.New("the calls of several chats ask at once")
		case len(candidates) == 1 || conn.unassigned >= len(candidates):
			if candidates[0].key == "" {
				return nil, errors.New("nobody waits for it")
			}
			candidates[0].asking = asked
			return candidates[0], nil
		}
		move := s.move
		s.mu.Unlock()
		select {
		case <-move:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func isDone(c *call) bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// ofOneRun reports whether calls answer the same message, so that the same people may know of
// all of them.
func ofOneRun(calls []*call) bool {
	return !slices.ContainsFunc(calls, func(c *call) bool {
		return c.session.Key != calls[0].session.Key || c.session.Asked.ID != calls[0].session.Asked.ID
	})
}

// inputNeeded returns an error when a result says that the server wants something first: of
// people, who are asked where they can be, or of the model.
func (s *server) inputNeeded(ctx context.Context, result any) error {
	wanted, state := wantedOf(result)
	if wanted == nil {
		return nil
	}
	needs := &tools.NeedsInput{}
	for id, request := range wanted {
		p, is := request.(*sdk.ElicitParams)
		if !is {
			return fmt.Errorf("nothing was done: the server %s wants to use the gateway's model, or to know its folders, which it can't here", s.name)
		}
		p.Message = s.named.Hide(p.Message)
		form, err := formOf(s.name, p)
		if err != nil {
			return fmt.Errorf("nothing was done: the server %s wants to ask the user, which it can't, because %w", s.name, err)
		}
		if tools.CallKeyOf(ctx) == "" {
			return fmt.Errorf("nothing was done: the server %s wants to ask the user, which it can't do here: %q", s.name, plaintext.ShortLine(p.Message, 1000))
		}
		form.Request, form.State = id, state
		needs.Forms = append(needs.Forms, form)
	}
	switch {
	case len(state) > maxCallState:
		return fmt.Errorf("nothing was done: the server %s has the gateway keep more than %d KiB for it", s.name, maxCallState>>10)
	case len(needs.Forms) == 0:
		return fmt.Errorf("nothing was done: the server %s is busy; try again later", s.name)
	case len(needs.Forms) > maxFields:
		return fmt.Errorf("nothing was done: the server %s asks more than %d questions at once", s.name, maxFields)
	}
	return needs
}

// wantedOf returns what a result says is needed first, nil for nothing, and the state that the
// server wants back with it.
func wantedOf(result any) (sdk.InputRequestMap, string) {
	switch r := result.(type) {
	case *sdk.CallToolResult:
		return r.InputRequests, r.RequestState
	case *sdk.GetPromptResult:
		return r.InputRequests, r.RequestState
	case *sdk.ReadResourceResult:
		return r.InputRequests, r.RequestState
	}
	return nil, ""
}
