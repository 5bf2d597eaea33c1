package api

import (
	"context"
	"net/http"

	"parley/conversation"
)

// OfChat is the conversation that a request is about.
type OfChat struct {
	ID string `path:"id" doc:"The conversation's id" example:"019df0a2-5f3e-7c11-9d3a-5b1f0a7e2c44"`
}

type ChatFilter struct {
	Page
	MetadataFilter
	Archived string `query:"archived" enum:"true,false" doc:"Only those that are archived, or only those that go on"`
	Text     string `query:"text" doc:"Stands in the title"`
	User     string `query:"user" doc:"Has written in it: the platform's id, or the name"`
}

func (f ChatFilter) query() conversation.ConversationQuery {
	return conversation.ConversationQuery{
		Text: f.Text, User: f.User, Metadata: f.wanted, Active: f.Archived == "false", Archived: f.Archived == "true",
		ByAge: f.byAge(), From: f.Cursor, Limit: f.Limit,
	}
}

type chatList struct {
	Body struct {
		Conversations []chat `json:"conversations"`
		Next          string `json:"next,omitempty" doc:"The cursor of the next page; none on the last one"`
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
	key, err := parseKey(in.Key)
	if err != nil {
		return nil, err
	}
	if _, err := c.Store.Session(ctx, key); err != nil {
		return nil, err
	}
	query := in.query()
	query.Key = key
	return c.findChats(ctx, query)
}

func (c *Channel) findChats(ctx context.Context, query conversation.ConversationQuery) (*chatList, error) {
	found, next, err := c.Store.Conversations(ctx, query)
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
		Title *string `json:"title,omitempty" maxLength:"200" doc:"What it is called from now on"`
	}
}

func (c *Channel) renameChat(ctx context.Context, in *patchChat) (*oneChat, error) {
	if in.Body.Title == nil {
		return nil, problem(http.StatusUnprocessableEntity, "There is nothing to change. Allowed: title.")
	}
	known, err := c.Store.Conversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	renamed, err := c.Sessions.Rename(ctx, known.Key, known.ID, *in.Body.Title)
	return &oneChat{c.chatOf(renamed)}, err
}

func (c *Channel) archiveChat(ctx context.Context, in *OfChat) (*oneChat, error) {
	known, err := c.Store.Conversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	archived, err := c.Sessions.Archive(ctx, known.Key, known.ID)
	return &oneChat{c.chatOf(archived)}, err
}

func (c *Channel) deleteChat(ctx context.Context, in *OfChat) (*deleted, error) {
	known, err := c.Store.Conversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return c.delete(ctx, known.Key, known.ID)
}
