package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/search"
)

type searchMessages struct {
	Words        string `query:"q" required:"true" maxLength:"1000" doc:"Words, and phrases in double quotes; everything else is only text" example:"\"red fox\" jumps"`
	Session      string `query:"session" doc:"Only in this session" example:"api:task-42"`
	Conversation string `query:"conversation" doc:"Only in the conversation with this id"`
	Limit        int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"How many at most"`
	Skip         int    `query:"skip" minimum:"0" maximum:"1000" doc:"How many of the best to leave out"`
}

type hit struct {
	Session      conversation.Key  `json:"session"`
	Conversation string            `json:"conversation"`
	Title        string            `json:"title,omitempty"`
	Seq          int64             `json:"seq"`
	Role         conversation.Role `json:"role"`
	Tool         string            `json:"tool,omitempty" doc:"Whose result it is"`
	Sender       string            `json:"sender,omitempty"`
	At           time.Time         `json:"at"`
	Snippet      string            `json:"snippet" doc:"A part of the message around the words"`
}

type hitList struct {
	Body struct {
		Hits []hit `json:"hits" doc:"The best first. A new message is found about a second after it was stored"`
	}
}

func (c *Channel) searchMessages(ctx context.Context, in *searchMessages) (*hitList, error) {
	query := search.Query{Conversation: in.Conversation, Words: in.Words, Limit: in.Limit, Skip: in.Skip}
	if in.Session != "" {
		key, err := parseKey(in.Session)
		if err != nil {
			return nil, err
		}
		query.Key = key
	}
	if strings.TrimSpace(in.Words) == "" {
		return nil, problem(http.StatusUnprocessableEntity, "q has no words to look for.")
	}
	found, err := search.New(c.Store).Find(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &hitList{}
	out.Body.Hits = mapped(found, hitOf)
	return out, nil
}

func hitOf(h search.Hit) hit {
	return hit{
		Session: h.Key, Conversation: h.Conversation, Title: h.Title, Seq: h.Seq, Role: h.Role, Tool: h.ToolName, Sender: h.Sender.Name,
		At: h.At.UTC(), Snippet: h.Snippet.Mark("", ""),
	}
}
