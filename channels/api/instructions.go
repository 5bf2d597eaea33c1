package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/catalog"
)

func (c *Channel) instructionOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "get-instructions", Method: http.MethodGet, Path: pathOfSession + "/instructions", Tags: []string{tagSessions},
			Summary: "Get the instructions of a session", Description: "What the model is told in every run of the session, beside the gateway's own instructions.", Errors: []int{http.StatusNotFound},
		}, c.getInstructions),
		endpoint(c, huma.Operation{
			OperationID: "put-instructions", Method: http.MethodPut, Path: pathOfSession + "/instructions", Tags: []string{tagSessions},
			Summary:     "Replace the instructions of a session",
			Description: "They hold from the next run on, and stay when a conversation expires or is archived. A session whose key begins with api: is made when it is new.",
			Errors:      []int{http.StatusNotFound},
		}, c.putInstructions),
	}
}

type instructionList struct {
	Instructions []string `json:"instructions" maxItems:"100" doc:"The instructions in the order in which the model is told them; at most 16 KiB together. An empty list removes them"`
}

// instructionsOf are the instructions of a session.
type instructionsOf struct{ Body instructionList }

// getInstructions returns what the model is told in every run of a session.
func (c *Channel) getInstructions(ctx context.Context, in *OfSession) (*instructionsOf, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	if _, err := catalog.New(c.Store).Session(ctx, key); err != nil {
		return nil, err
	}
	return c.instructions(ctx, key)
}

func (c *Channel) instructions(ctx context.Context, key conversation.Key) (*instructionsOf, error) {
	active, err := c.Store.Active(ctx, key)
	out := &instructionsOf{}
	out.Body.Instructions = append([]string{}, active.State.Instructions...)
	return out, err
}

type putInstructions struct {
	OfSession
	Body instructionList
}

// putInstructions replaces them. Sessions of other channels are not made here: a
// place begins with what somebody says in it.
func (c *Channel) putInstructions(ctx context.Context, in *putInstructions) (*instructionsOf, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	if key.Channel() != ChannelName {
		if _, err := catalog.New(c.Store).Session(ctx, key); err != nil {
			return nil, err
		}
	}
	if err := c.Store.SetInstructions(ctx, key, in.Body.Instructions...); err != nil {
		return nil, err
	}
	c.Edited(key)
	c.Feed.Changed(key)
	return c.instructions(ctx, key)
}
