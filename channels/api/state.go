package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/state"
)

func (c *Channel) stateOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "get-state", Method: http.MethodGet, Path: pathOfSession + "/state", Tags: []string{tagSessions},
			Summary: "Get the session state", Description: "Returns what the model is told about the active conversation in every run.", Errors: []int{http.StatusNotFound},
		}, c.getState),
		endpoint(c, huma.Operation{
			OperationID: "patch-state", Method: http.MethodPatch, Path: pathOfSession + "/state", Tags: []string{tagSessions},
			Summary: "Add and strike rules and decisions", Description: "What is struck goes first. All of it is done, or nothing.",
			Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.patchState),
	}
}

// sessionState is the state of a session's active conversation, which the model is told in every run.
type sessionState struct {
	Conversation string       `json:"conversation" doc:"The id of the active conversation"`
	Turns        int64        `json:"turns"`
	Model        string       `json:"model,omitempty" doc:"The model that answered last"`
	Workspace    string       `json:"workspace,omitempty" doc:"The working directory"`
	Repository   string       `json:"repository,omitempty"`
	Rules        []stateNote  `json:"rules"`
	Decisions    []stateNote  `json:"decisions"`
	Files        []stateNote  `json:"files"`
	Errors       []stateError `json:"errors"`
	Forgotten    int64        `json:"forgotten,omitempty" doc:"The number of rules and decisions that were dropped for lack of room"`
}

type stateNote struct {
	Number int64  `json:"number,omitempty" doc:"The number by which a rule or a decision is struck"`
	Text   string `json:"text"`
	Turn   int64  `json:"turn,omitempty" doc:"The turn in which it was last said; absent if it carried over from an earlier conversation"`
}

type stateError struct {
	In       string `json:"in" doc:"What was done"`
	Error    string `json:"error"`
	Turn     int64  `json:"turn,omitempty"`
	Resolved bool   `json:"resolved" doc:"The same call succeeded later"`
}

type oneState struct{ Body sessionState }

type patchState struct {
	OfSession
	Body struct {
		Rules     []string `json:"add_rules,omitempty" maxItems:"100"`
		Decisions []string `json:"add_decisions,omitempty" maxItems:"50"`
		Strike    []int64  `json:"strike,omitempty" maxItems:"150" doc:"Numbers of rules and decisions to remove"`
	}
}

func (c *Channel) getState(ctx context.Context, in *OfSession) (*oneState, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	if _, err := catalog.New(c.Store).Session(ctx, key); err != nil {
		return nil, err
	}
	found, err := c.Store.Active(ctx, key)
	return &oneState{stateOf(found)}, err
}

// patchState adds and removes rules and decisions.
func (c *Channel) patchState(ctx context.Context, in *patchState) (*oneState, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	change := state.Correction{Rules: in.Body.Rules, Decisions: in.Body.Decisions, Strike: in.Body.Strike}
	if len(change.Rules)+len(change.Decisions)+len(change.Strike) == 0 {
		return c.getState(ctx, &in.OfSession)
	}
	record := conversation.Message{Role: conversation.RoleSystem, Content: recordOf(change)}
	record.Tokens = c.Tokens(record)
	changed, err := c.Sessions.Correct(ctx, key, change, record)
	return &oneState{stateOf(changed)}, err
}

// recordOf describes a correction in a sentence, for the archive.
func recordOf(change state.Correction) string {
	var parts []string
	for _, n := range change.Strike {
		parts = append(parts, fmt.Sprintf("number %d was struck", n))
	}
	for _, text := range change.Rules {
		parts = append(parts, "rule was added: "+text)
	}
	for _, text := range change.Decisions {
		parts = append(parts, "decision was added: "+text)
	}
	return "[state: " + strings.Join(parts, "; ") + "]"
}

func stateOf(c conversation.Conversation) sessionState {
	s := c.State.WithNumbers()
	note := func(n state.Note) stateNote { return stateNote{n.Number, n.Text, n.Turn} }
	return sessionState{
		Conversation: c.ID, Turns: s.Turns, Model: s.Model, Workspace: s.Directory, Repository: s.Repository,
		Rules: mapped(s.Constraints, note), Decisions: mapped(s.Decisions, note), Files: mapped(s.Files, note),
		Errors: mapped(s.Failures, func(f state.Failure) stateError {
			return stateError{f.Text, f.Error, f.Turn, f.Resolved}
		}),
		Forgotten: s.Forgotten,
	}
}
