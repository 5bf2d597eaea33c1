package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/metadata"
	"parley/conversation/settings"
)

func (c *Channel) sessionOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "list-sessions", Method: http.MethodGet, Path: prefix + "/sessions", Tags: []string{tagSessions},
			Summary: "List sessions", Parameters: []*huma.Param{metadataParam("the session")},
		}, c.listSessions),
		endpoint(c, huma.Operation{
			OperationID: "get-session", Method: http.MethodGet, Path: pathOfSession, Tags: []string{tagSessions},
			Summary: "Get a session", Errors: []int{http.StatusNotFound},
		}, c.getSession),
		endpoint(c, huma.Operation{
			OperationID: "patch-session", Method: http.MethodPatch, Path: pathOfSession, Tags: []string{tagSessions},
			Summary: "Change the metadata, the model or the agent of a session", Description: "What the body does not name stays. A session whose key begins with api: is made when it is new.", Errors: []int{http.StatusNotFound},
		}, c.patchSession),
		endpoint(c, huma.Operation{
			OperationID: "archive-session", Method: http.MethodPost, Path: pathOfSession + "/archive", Tags: []string{tagSessions},
			Summary: "Archive the active conversation", Description: "The next message begins a new one.", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.archiveSession),
		endpoint(c, huma.Operation{
			OperationID: "reset-session", Method: http.MethodPost, Path: pathOfSession + "/reset", Tags: []string{tagSessions},
			Summary: "Begin a new conversation", Description: "The active one is archived; the session keeps its metadata.", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.resetSession),
		endpoint(c, huma.Operation{
			OperationID: "delete-session", Method: http.MethodDelete, Path: pathOfSession, Tags: []string{tagSessions},
			Summary: "Delete all conversations of a session", Description: "For good, with the session's metadata.", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.deleteSession),
	}
}

// OfSession is the session that a request is about.
type OfSession struct {
	Key string `path:"key" doc:"The session's key, escaped for a URL" example:"api:task-42"`
}

type listSessions struct {
	Page
	MetadataFilter
	Channel  string `query:"channel" doc:"Only those of this channel" example:"api"`
	Archived string `query:"archived" enum:"true,false" doc:"true: only those whose conversations are all archived; false: only those with an active conversation, or with a first message that waits"`
	Text     string `query:"text" doc:"Only those with this text in the key, the place or a title"`
	User     string `query:"user" doc:"Only those in which this person has written: the platform's id, or the name"`
}

type sessionList struct {
	Body struct {
		Sessions []session `json:"sessions"`
		Next     string    `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one"`
	}
}

func (c *Channel) listSessions(ctx context.Context, in *listSessions) (*sessionList, error) {
	found, next, err := catalog.New(c.Store).Sessions(ctx, catalog.SessionQuery{
		Channel: in.Channel, Text: in.Text, User: in.User, Metadata: in.wanted,
		Active: in.Archived == "false", Archived: in.Archived == "true",
		ByAge: in.byAge(), From: in.Cursor, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	out := &sessionList{}
	out.Body.Sessions, out.Body.Next = mapped(found, c.sessionOf), next
	return out, nil
}

type oneSession struct{ Body session }

func (c *Channel) getSession(ctx context.Context, in *OfSession) (*oneSession, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	return c.session(ctx, key)
}

func (c *Channel) session(ctx context.Context, key conversation.Key) (*oneSession, error) {
	found, err := catalog.New(c.Store).Session(ctx, key)
	if err != nil {
		return nil, err
	}
	return &oneSession{c.sessionOf(found)}, nil
}

type patchSession struct {
	OfSession
	Body struct {
		Metadata json.RawMessage `json:"metadata,omitempty" doc:"Members to set; null removes a member (RFC 7396), and null instead of an object removes all"`
		Model    *string         `json:"model,omitempty" doc:"The model that answers from the next run on, see GET /v1/models; an empty text: the usual one"`
		Agent    *string         `json:"agent,omitempty" doc:"The agent that answers from the next run on; an empty text: the usual one"`
	}
}

// patchSession changes metadata and what is chosen for a session. It creates a session of this channel that is
// new, so that a program can describe it before anybody speaks.
func (c *Channel) patchSession(ctx context.Context, in *patchSession) (*oneSession, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	change := settings.Change{Model: in.Body.Model, Agent: in.Body.Agent}
	if len(in.Body.Metadata) == 0 && change == (settings.Change{}) {
		return nil, problem(http.StatusUnprocessableEntity, "There is nothing to change. Allowed: metadata, model, agent.")
	}
	_, err = catalog.New(c.Store).Session(ctx, key)
	if err != nil && !(errors.Is(err, conversation.ErrNoSession) && key.Channel() == ChannelName) {
		return nil, err
	}
	if err := c.checkChoice(key, change); err != nil {
		return nil, err
	}
	if len(in.Body.Metadata) > 0 {
		if err := c.Store.ChangeMetadata(ctx, key, "", patched(in.Body.Metadata)); err != nil {
			return nil, err
		}
	}
	if change != (settings.Change{}) {
		if err := settings.Set(ctx, c.Store, key, change); err != nil {
			return nil, err
		}
		c.Edited(key)
	}
	c.Feed.Changed(key)
	return c.session(ctx, key)
}

// checkChoice returns an error unless programs may choose a model and an agent for a session.
func (c *Channel) checkChoice(key conversation.Key, change settings.Change) error {
	if model := change.Model; model != nil && *model != "" && !(slices.Contains(c.Named, *model) && c.MayUse(*model, key)) {
		return problem(http.StatusUnprocessableEntity, "body.model: there is no model %q that this session may have.", shorten(*model))
	}
	if agent := change.Agent; agent != nil && *agent != "" && !(slices.Contains(c.Agents, *agent) && c.MayHave(*agent, key)) {
		return problem(http.StatusUnprocessableEntity, "body.agent: there is no agent %q that this session may have.", shorten(*agent))
	}
	return nil
}

// patched returns a change that applies a merge patch to metadata. Another gateway may have changed the metadata meanwhile.
func patched(patch json.RawMessage) func(metadata.Object) (metadata.Object, error) {
	return func(old metadata.Object) (metadata.Object, error) { return merged(old, patch) }
}

// merged applies a merge patch to the members of metadata:
// https://www.rfc-editor.org/rfc/rfc7396
func merged(old metadata.Object, patch json.RawMessage) (metadata.Object, error) {
	if bytes.Equal(bytes.TrimSpace(patch), []byte("null")) {
		return "", nil
	}
	members, changes := map[string]any{}, map[string]any{}
	if err := unmarshalExact(patch, &changes); err != nil {
		return "", problem(http.StatusUnprocessableEntity, "metadata must be a JSON object, or null.")
	}
	if old != "" {
		if err := unmarshalExact([]byte(old), &members); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(mergePatch(members, changes))
	return metadata.Object(text), err
}

// unmarshalExact decodes JSON and keeps numbers as they are written: a float64
// can't hold an id of 64 bits.
func unmarshalExact(text []byte, into *map[string]any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func mergePatch(members, changes map[string]any) map[string]any {
	for name, change := range changes {
		switch change := change.(type) {
		case nil:
			delete(members, name)
		case map[string]any:
			inner, _ := members[name].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
			}
			members[name] = mergePatch(inner, change)
		default:
			members[name] = change
		}
	}
	return members
}

type deleted struct {
	Body struct {
		Deleted int `json:"deleted" doc:"Conversations"`
	}
}

// deleteSession deletes all conversations of a session, and its metadata.
func (c *Channel) deleteSession(ctx context.Context, in *OfSession) (*deleted, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	if _, err := catalog.New(c.Store).Session(ctx, key); err != nil {
		return nil, err
	}
	return c.delete(ctx, key, "")
}

func (c *Channel) delete(ctx context.Context, key conversation.Key, id string) (*deleted, error) {
	n, err := c.Sessions.Delete(ctx, key, id)
	out := &deleted{}
	out.Body.Deleted = n
	return out, err
}

// archiveSession ends the active conversation of a session.
func (c *Channel) archiveSession(ctx context.Context, in *OfSession) (*oneChat, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	archived, err := c.Sessions.Archive(ctx, key, "")
	return &oneChat{c.chatOf(archived)}, err
}

type resetSession struct {
	OfSession
	Keep bool `query:"keep_system_message" doc:"The same as in the body"`
	Body *struct {
		KeepSystemMessage bool `json:"keep_system_message,omitempty" doc:"Begin the new conversation with what programs had appended internally at the beginning of the old one, its system messages among it"`
	}
}

// resetSession archives the active conversation and begins a new one. The
// session keeps its metadata.
func (c *Channel) resetSession(ctx context.Context, in *resetSession) (*oneChat, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	fresh, err := c.Sessions.Reset(ctx, key, in.Keep || in.Body != nil && in.Body.KeepSystemMessage)
	return &oneChat{c.chatOf(fresh)}, err
}
