package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation"
	"parley/conversation/search"
)

func (c *Channel) searchOperations() []operation {
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "search", Method: http.MethodGet, Path: prefix + "/search", Tags: []string{tagLooking},
			Summary: "Search messages", Description: "In all sessions, in some of them, or in one.",
			Parameters: []*huma.Param{metadataParam("the message, its conversation or its session")}, Errors: []int{http.StatusNotFound},
		}, c.searchMessages),
		endpoint(c, huma.Operation{
			OperationID: "search-conversations", Method: http.MethodGet, Path: prefix + "/search/conversations", Tags: []string{tagLooking},
			Summary: "Search conversations", Parameters: []*huma.Param{metadataParam("the conversation or its session")},
			Description: "By their titles and by what was said in them. The last word may be the beginning of a longer one.",
		}, c.searchConversations),
	}
}

// SearchScope is what a search looks through.
type SearchScope struct {
	MetadataFilter
	Words   string `query:"q" required:"true" maxLength:"1000" doc:"Words, and phrases in double quotes; everything else is only text" example:"\"red fox\" jumps"`
	Channel string `query:"channel" doc:"Only in sessions of this channel" example:"web"`
	Prefix  string `query:"key_prefix" maxLength:"600" doc:"Only in sessions whose keys begin with this text" example:"api:team-7/"`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"How many at most"`
	Skip    int    `query:"skip" minimum:"0" maximum:"1000" doc:"How many of the best to leave out"`
}

func (s SearchScope) scope() search.Scope {
	return search.Scope{Channel: s.Channel, Prefix: s.Prefix, Metadata: s.wanted}
}

// checkWords refuses a search that can find nothing. param is the parameter that holds the words.
func checkWords(param, words string) error {
	if strings.TrimSpace(words) == "" {
		return problem(http.StatusUnprocessableEntity, "%s has no words to look for.", param)
	}
	return nil
}

type searchMessages struct {
	SearchScope
	Session      string `query:"session" doc:"Only in this session" example:"api:task-42"`
	Conversation string `query:"conversation" doc:"Only in the conversation with this id"`
}

type hit struct {
	Session      conversation.Key  `json:"session"`
	Conversation string            `json:"conversation"`
	Title        string            `json:"title,omitempty"`
	Seq          int64             `json:"seq"`
	Role         conversation.Role `json:"role"`
	Tool         string            `json:"tool,omitempty" doc:"The tool whose result the message is"`
	Sender       string            `json:"sender,omitempty"`
	At           time.Time         `json:"at"`
	Snippet      string            `json:"snippet" doc:"The part of the message around the words; for an answer, without the marks of Markdown"`
	Metadata     json.RawMessage   `json:"metadata,omitempty" doc:"The metadata of the message, a JSON object"`
	File         *foundInFile      `json:"file,omitempty" doc:"The words are deep in a file of the message, and snippet is a part of that"`
}

// foundInFile is the page of a file in which words were found.
type foundInFile struct {
	Name  string `json:"name"`
	Page  int64  `json:"page" doc:"The number of the page, from 1; a page has 12 KiB of the file's text"`
	Pages int64  `json:"pages"`
	URL   string `json:"url,omitempty" doc:"The address of the whole file"`
}

type hitList struct {
	Body struct {
		Hits []hit `json:"hits" doc:"The matches, best first. A new message is found about a second after it was stored"`
	}
}

func (c *Channel) searchMessages(ctx context.Context, in *searchMessages) (*hitList, error) {
	if err := checkWords("q", in.Words); err != nil {
		return nil, err
	}
	query := search.Query{Conversation: in.Conversation, Scope: in.scope(), Words: in.Words, Limit: in.Limit, Skip: in.Skip}
	query.Metadata, query.Scope.Metadata = query.Scope.Metadata, nil // each message is compared
	if in.Session != "" {
		key, err := c.keyOf(ctx, in.Session)
		if err != nil {
			return nil, err
		}
		query.Key = key
	}
	if (query.Key != "" || query.Conversation != "") && !query.Scope.IsAll() {
		return nil, problem(http.StatusUnprocessableEntity, "channel and key_prefix choose among several sessions; leave them out where session or conversation names one.")
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
	shown := hit{
		Session: h.Key, Conversation: h.Conversation, Title: h.Title, Seq: h.Seq, Role: h.Role, Tool: h.ToolName, Sender: h.Sender.Name,
		At: h.At.UTC(), Snippet: h.Snippet.Mark("", ""), Metadata: object(h.Metadata),
	}
	if f := h.File; f != nil {
		shown.File = &foundInFile{Name: f.Name, Page: f.Page, Pages: f.Pages}
		if f.N >= 0 {
			shown.File.URL = filePath(h.Conversation, h.Seq, f.N)
		}
	}
	return shown
}

type foundConversation struct {
	Conversation chat  `json:"conversation"`
	Hits         []hit `json:"hits" doc:"Its best messages, at most three; empty if only the title matched"`
}

type foundList struct {
	Body struct {
		Conversations []foundConversation `json:"conversations" doc:"Those with all words come first, then the others; the best first"`
		More          bool                `json:"more" doc:"Others follow: ask again with skip"`
	}
}

func (c *Channel) searchConversations(ctx context.Context, in *SearchScope) (*foundList, error) {
	if err := checkWords("q", in.Words); err != nil {
		return nil, err
	}
	found, more, err := search.New(c.Store).Conversations(ctx, search.ConversationQuery{
		Scope: in.scope(), Words: in.Words, Limit: in.Limit, Skip: in.Skip,
	})
	if err != nil {
		return nil, err
	}
	out := &foundList{}
	out.Body.More = more
	out.Body.Conversations = mapped(found, func(f search.Found) foundConversation {
		return foundConversation{Conversation: c.chatOf(f.Conversation), Hits: mapped(f.Hits, hitOf)}
	})
	return out, nil
}
