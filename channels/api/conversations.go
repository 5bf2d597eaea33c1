package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/catalog"
)

func (c *Channel) conversationOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "list-session-conversations", Method: http.MethodGet, Path: pathOfSession + "/conversations", Tags: []string{tagSessions},
			Summary: "List the conversations of a session", Parameters: []*huma.Param{metadataParam("the conversation or its session")}, Errors: []int{http.StatusNotFound},
		}, c.listSessionChats),
		endpoint(c, huma.Operation{
			OperationID: "resume-conversation", Method: http.MethodPost, Path: pathOfSession + "/conversations/{id}/resume", Tags: []string{tagSessions},
			Summary: "Resume an archived conversation", Description: "The next message goes there. The conversation that was active is archived.",
			Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.resumeChat),
		endpoint(c, huma.Operation{
			OperationID: "list-conversations", Method: http.MethodGet, Path: prefix + "/conversations", Tags: []string{tagConversations},
			Summary: "List conversations", Parameters: []*huma.Param{metadataParam("the conversation or its session")},
		}, c.listChats),
		endpoint(c, huma.Operation{
			OperationID: "patch-conversation", Method: http.MethodPatch, Path: pathOfConversation, Tags: []string{tagConversations},
			Summary: "Change the title or the metadata of a conversation", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.patchChat),
		endpoint(c, huma.Operation{
			OperationID: "archive-conversation", Method: http.MethodPost, Path: pathOfConversation + "/archive", Tags: []string{tagConversations},
			Summary: "Archive a conversation", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.archiveChat),
		endpoint(c, huma.Operation{
			OperationID: "delete-conversation", Method: http.MethodDelete, Path: pathOfConversation, Tags: []string{tagConversations},
			Summary: "Delete a conversation", Description: "For good.", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.deleteChat),
	}
}

// OfChat is the conversation that a request is about.
type OfChat struct {
	ID string `path:"id" doc:"The conversation's id" example:"019df0a2-5f3e-7c11-9d3a-5b1f0a7e2c44"`
}

type ChatFilter struct {
	Page
	MetadataFilter
	Archived string `query:"archived" enum:"true,false" doc:"true: only archived ones; false: only active ones"`
	Text     string `query:"text" doc:"Only those with this text in the title"`
	User     string `query:"user" doc:"Only those in which this person has written: the platform's id, or the name"`
}

func (f ChatFilter) query() catalog.ConversationQuery {
	return catalog.ConversationQuery{
		Text: f.Text, User: f.User, Metadata: f.wanted, Active: f.Archived == "false", Archived: f.Archived == "true",
		ByAge: f.byAge(), From: f.Cursor, Limit: f.Limit,
	}
}

type chatList struct {
	Body struct {
		Conversations []chat `json:"conversations"`
		Next          string `json:"next,omitempty" doc:"The cursor of the next page; absent on the last one"`
	}
}

type listChats struct {
	ChatFilter
	Channel string `query:"channel" doc:"Only those of this channel" example:"api"`
}

func (c *Channel) listChats(ctx context.Context, in *listChats) (*chatList, error) {
	query := in.query()
	query.Channel = in.Channel
	return c.findChats(ctx, query)
}

type listSessionChats struct {
	OfSession
	ChatFilter
}

func (c *Channel) listSessionChats(ctx context.Context, in *listSessionChats) (*chatList, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	if _, err := catalog.New(c.Store).Session(ctx, key); err != nil {
		return nil, err
	}
	query := in.query()
	query.Key = key
	return c.findChats(ctx, query)
}

func (c *Channel) findChats(ctx context.Context, query catalog.ConversationQuery) (*chatList, error) {
	found, next, err := catalog.New(c.Store).Conversations(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &chatList{}
	out.Body.Conversations, out.Body.Next = mapped(found, c.chatOf), next
	return out, nil
}

type oneChat struct{ Body chat }

type patchChat struct {
	OfChat
	Body struct {
		Title    *string         `json:"title,omitempty" maxLength:"200" doc:"The new title"`
		Metadata json.RawMessage `json:"metadata,omitempty" doc:"Members to set; null removes a member (RFC 7396), and null instead of an object removes all"`
	}
}

func (c *Channel) patchChat(ctx context.Context, in *patchChat) (*oneChat, error) {
	if in.Body.Title == nil && in.Body.Metadata == nil {
		return nil, problem(http.StatusUnprocessableEntity, "There is nothing to change. Allowed: title, metadata.")
	}
	known, err := c.Store.Conversation(ctx, in.ID)
	if err == nil && in.Body.Metadata != nil { // before the title, which waits for a run under way
		known, err = c.patchMetadata(ctx, in.ID, in.Body.Metadata)
	}
	if err == nil && in.Body.Title != nil {
		known, err = c.Sessions.Rename(ctx, known.Key, known.ID, *in.Body.Title)
	}
	return &oneChat{c.chatOf(known)}, err
}

// patchMetadata changes the metadata of a conversation. No run reads it, so it waits for none.
func (c *Channel) patchMetadata(ctx context.Context, id string, patch json.RawMessage) (conversation.Conversation, error) {
	of, err := c.Store.Conversation(ctx, id)
	if err != nil {
		return of, err
	}
	if err := c.Store.ChangeMetadata(ctx, of.Key, of.ID, patched(patch)); err != nil {
		return of, err
	}
	c.Feed.Changed(of.Key)
	return c.Store.Conversation(ctx, id)
}

func (c *Channel) archiveChat(ctx context.Context, in *OfChat) (*oneChat, error) {
	known, err := c.Store.Conversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	archived, err := c.Sessions.Archive(ctx, known.Key, known.ID)
	return &oneChat{c.chatOf(archived)}, err
}

type resumeChat struct {
	OfSession
	OfChat
}

// resumeChat makes an archived conversation the active one of its session. One that is active stays so.
func (c *Channel) resumeChat(ctx context.Context, in *resumeChat) (*oneChat, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	known, err := c.Store.Conversation(ctx, in.ID)
	if err == nil && !(known.Active && known.Key == key) {
		if err = c.Sessions.Resume(ctx, key, in.ID); err == nil {
			known, err = c.Store.Conversation(ctx, in.ID)
		}
	}
	if err != nil {
		return nil, err
	}
	return &oneChat{c.chatOf(known)}, nil
}

func (c *Channel) deleteChat(ctx context.Context, in *OfChat) (*deleted, error) {
	known, err := c.Store.Conversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return c.delete(ctx, known.Key, known.ID)
}
