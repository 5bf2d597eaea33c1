package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/runs"
)

func (c *Channel) readOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "get-messages", Method: http.MethodGet, Path: pathOfSession + "/messages", Tags: []string{tagMessages},
			Summary: "Read the active conversation", Parameters: []*huma.Param{metadataParam("the message")}, Errors: []int{http.StatusNotFound},
		}, c.getSessionMessages),
		endpoint(c, huma.Operation{
			OperationID: "get-conversation", Method: http.MethodGet, Path: pathOfConversation, Tags: []string{tagConversations},
			Summary: "Get a conversation with its messages", Parameters: []*huma.Param{metadataParam("the message")}, Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.getChat),
	}
}

// Stretch is which messages of a conversation are asked for.
type Stretch struct {
	MetadataFilter
	View   string `query:"view" enum:"user,talk,all,window" default:"user" doc:"user: what people read; talk: with tool calls; all: everything stored, with internal and replaced messages; window: what the model would be sent now"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"The most messages of a page. A page of long messages has fewer"`
	Before int64  `query:"before" minimum:"1" doc:"Only those before this seq"`
	After  int64  `query:"after" minimum:"0" doc:"Only those behind this seq, the oldest first; 0 for the beginning"`

	forward bool     // after is given
	narrows []string // the given parameters that choose among the messages of a view
}

// Resolve reads which parameters are given. huma calls it with the request.
func (s *Stretch) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	given := u.Query()
	s.forward = given.Has("after")
	for name := range given {
		if name == "limit" || name == "before" || name == "after" || strings.HasPrefix(name, metadataPrefix) {
			s.narrows = append(s.narrows, name)
		}
	}
	slices.Sort(s.narrows)
	return s.MetadataFilter.Resolve(ctx)
}

// query returns what a request asks for of a conversation.
func (s Stretch) query(id string) conversation.MessageQuery {
	views := map[string]conversation.View{"user": conversation.ViewPeople, "talk": conversation.ViewTalk, "all": conversation.ViewAll}
	return conversation.MessageQuery{
		Conversation: id, View: views[s.View], Before: s.Before, After: s.After, Forward: s.forward,
		Metadata: s.wanted, Limit: s.Limit,
	}
}

type messageList struct {
	Body struct {
		Conversation *chat     `json:"conversation,omitempty" doc:"Absent before the first message"`
		Messages     []message `json:"messages" doc:"Oldest first"`
		More         bool      `json:"more,omitempty" doc:"There are more messages: before these, or, with after, behind them"`
		Window       *window   `json:"window,omitempty" doc:"Only with view=window"`
	}
}

type window struct {
	Tokens int   `json:"tokens" doc:"Tokens that the model would be sent, including its tools"`
	Budget int   `json:"budget" doc:"The most tokens that the window may have"`
	Left   int64 `json:"left" doc:"Messages of the conversation that are not shown to the model"`
}

type sessionMessages struct {
	OfSession
	Stretch
}

// getSessionMessages returns messages of the active conversation.
func (c *Channel) getSessionMessages(ctx context.Context, in *sessionMessages) (*messageList, error) {
	key, err := c.keyOf(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	active, err := c.Store.Active(ctx, key)
	if err != nil {
		return nil, err
	}
	if active.Messages == 0 {
		if _, err := catalog.New(c.Store).Session(ctx, key); err != nil {
			return nil, err
		}
	}
	return c.messages(ctx, active, in.Stretch)
}

type chatMessages struct {
	OfChat
	Stretch
}

func (c *Channel) getChat(ctx context.Context, in *chatMessages) (*messageList, error) {
	known, err := c.Store.Conversation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return c.messages(ctx, known, in.Stretch)
}

func (c *Channel) messages(ctx context.Context, of conversation.Conversation, s Stretch) (*messageList, error) {
	if s.View == "window" {
		if len(s.narrows) > 0 {
			return nil, problem(http.StatusUnprocessableEntity, "view=window shows all that the model would be sent: leave out %s.", shorten(strings.Join(s.narrows, ", ")))
		}
		return c.window(ctx, of)
	}
	out := &messageList{}
	if of.Messages == 0 {
		out.Body.Messages = []message{}
		return out, nil
	}
	page, err := c.Store.Messages(ctx, s.query(of.ID))
	if err != nil {
		return nil, err
	}
	shown := c.chatOf(of)
	out.Body.Conversation, out.Body.More = &shown, page.More
	by, err := runs.Of(ctx, c.Store, of, page.Messages)
	if err != nil {
		return nil, err
	}
	out.Body.Messages = mapped(page.Messages, func(m conversation.Message) message { return messageOf(of.ID, m, m.State).writtenBy(by[m.RunID]) })
	return out, nil
}

func (c *Channel) window(ctx context.Context, of conversation.Conversation) (*messageList, error) {
	if of.Messages > 0 && !of.Active {
		return nil, problem(http.StatusConflict, "The conversation is archived: the model is sent nothing of it.")
	}
	w, err := c.Window(ctx, of.Key)
	if err != nil {
		return nil, err
	}
	out := &messageList{}
	if w.Conversation.Messages > 0 {
		shown := c.chatOf(w.Conversation)
		out.Body.Conversation = &shown
	}
	if e := c.expiresAt(w.Conversation.Messages > 0, w.Conversation.UpdatedAt); e != nil && e.Before(c.Store.Now()) {
		out.Body.Messages, out.Body.Window = []message{}, &window{Budget: w.Budget, Left: w.Conversation.Messages}
		return out, nil // the next message begins a new one
	}
	out.Body.Messages = mapped(w.Messages, func(m conversation.Message) message { return messageOf(w.Conversation.ID, m, "") })
	out.Body.Window = &window{Tokens: w.Tokens, Budget: w.Budget, Left: w.Left}
	return out, nil
}
