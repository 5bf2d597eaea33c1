package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/conversation"
	"parley/conversation/catalog"
	"parley/conversation/transcript"
)

// The gateway as a server of the Model Context Protocol: what programs may do over HTTP, as
// tools. What a tool returns has the shapes of the API.

// mcpPath is where the server is.
const mcpPath = "/mcp"

const mcpInstructions = "The archive and the sessions of Parley, an assistant in chats. search_messages finds what was said in any session; " +
	"read_messages reads on around it. send_message asks the assistant something, in a session of your own."

// How long send_message waits for the answer. Clients give calls up after a minute or so.
const (
	mcpWait     = 50
	mcpLongWait = 600
)

// Limits of a search, as SearchScope has them over HTTP.
const (
	maxWords = 1000 // characters
	maxSkip  = 1000
)

// The path of a conversation as a resource, and the most bytes of one.
const (
	resourceOfChats = "parley://conversations/"
	mostOfResource  = 4 << 20
)

// newMCPServer returns the server. Its calls are those of a channel.
func (c *Channel) newMCPServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "parley", Title: "Parley", Version: c.Version}, &mcp.ServerOptions{
		Instructions: mcpInstructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
	})
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	addTool(c, server, &mcp.Tool{Name: "search_messages", Title: "Search messages", Annotations: reads,
		Description: "Find messages by words, the best first, in all sessions or in one."}, c.mcpSearch)
	addTool(c, server, &mcp.Tool{Name: "read_messages", Title: "Read messages", Annotations: reads,
		Description: "Read a conversation, or the active one of a session, page by page: the newest messages, or those before or behind a seq."}, c.mcpRead)
	addTool(c, server, &mcp.Tool{Name: "list_sessions", Title: "List sessions", Annotations: reads,
		Description: "List the sessions, which are the places people and programs talk in. What was used last comes first."}, c.mcpSessions)
	addTool(c, server, &mcp.Tool{Name: "list_conversations", Title: "List conversations", Annotations: reads,
		Description: "List the conversations of a session, or of all. What was used last comes first."}, c.mcpConversations)
	addTool(c, server, &mcp.Tool{Name: "send_message", Title: "Send a message", Annotations: &mcp.ToolAnnotations{DestructiveHint: new(bool)},
		Description: "Send the assistant a message in a session whose key begins with api:, and return its answer. " +
			"While it is not answered, the status is waiting: the same call, with the id as idempotency_key, asks for the answer."}, c.mcpSend)
	server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "conversation", Title: "Conversation", URITemplate: resourceOfChats + "{id}", MIMEType: "text/markdown",
		Description: "A conversation as a text to be read, by its id.",
	}, c.mcpResource)
	return server
}

// addTool adds a tool. An error is told as the API tells it.
func addTool[In, Out any](c *Channel, server *mcp.Server, tool *mcp.Tool, call func(context.Context, *mcp.CallToolRequest, In) (Out, error)) {
	mcp.AddTool(server, tool, func(ctx context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		out, err := call(ctx, r, in)
		if err != nil {
			return nil, nil, c.problemOf(ctx, err)
		}
		return nil, out, nil
	})
}

// bodyOf returns the body of an answer of the API.
func bodyOf[T any, Answer interface{ ~struct{ Body T } }](answer *Answer, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return struct{ Body T }(*answer).Body, nil
}

// serveMCP answers requests of MCP clients. Each is complete in itself, so that a restart of
// the gateway ends nothing that a client holds.
func (c *Channel) serveMCP() http.Handler {
	server := c.newMCPServer()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true,
		DisableLocalhostProtection: true, // the HTTP server looks at names itself
	})
}

type mcpSearch struct {
	Query        string `json:"query" jsonschema:"words, and phrases in double quotes; at most 1000 characters"`
	Session      string `json:"session,omitempty" jsonschema:"only in the session with this key"`
	Conversation string `json:"conversation,omitempty" jsonschema:"only in the conversation with this id"`
	Channel      string `json:"channel,omitempty" jsonschema:"only in sessions of this channel, such as telegram"`
	Limit        int    `json:"limit,omitempty" jsonschema:"how many at most, up to 100; default 20"`
	Skip         int    `json:"skip,omitempty" jsonschema:"how many of the best to leave out, up to 1000"`
}

func (c *Channel) mcpSearch(ctx context.Context, _ *mcp.CallToolRequest, in mcpSearch) (any, error) {
	if err := checkWords("query", in.Query); err != nil {
		return nil, err
	}
	if n := utf8.RuneCountInString(in.Query); n > maxWords {
		return nil, problem(http.StatusUnprocessableEntity, "query has %d characters. Allowed: at most %d.", n, maxWords)
	}
	limit, err := within("limit", in.Limit, 20, 100)
	if err != nil {
		return nil, err
	}
	if in.Skip < 0 || in.Skip > maxSkip {
		return nil, problem(http.StatusUnprocessableEntity, "skip is %d. Allowed: 0 to %d.", in.Skip, maxSkip)
	}
	if in.Channel != "" && (in.Session != "" || in.Conversation != "") {
		return nil, problem(http.StatusUnprocessableEntity, "channel chooses among several sessions; leave it out where session or conversation names one.")
	}
	return bodyOf(c.searchMessages(ctx, &searchMessages{
		SearchScope: SearchScope{Words: in.Query, Channel: in.Channel, Limit: limit, Skip: in.Skip},
		Session:     in.Session, Conversation: in.Conversation,
	}))
}

type mcpRead struct {
	Session      string `json:"session,omitempty" jsonschema:"the key of the session whose active conversation is read"`
	Conversation string `json:"conversation,omitempty" jsonschema:"the id of the conversation, in place of a session"`
	Before       int64  `json:"before,omitempty" jsonschema:"only messages before this seq"`
	After        *int64 `json:"after,omitempty" jsonschema:"only messages behind this seq, the oldest first; 0 for the beginning"`
	Limit        int    `json:"limit,omitempty" jsonschema:"how many at most, up to 1000; default 50"`
	Tools        bool   `json:"tools,omitempty" jsonschema:"with the calls of tools and their results"`
}

func (c *Channel) mcpRead(ctx context.Context, _ *mcp.CallToolRequest, in mcpRead) (any, error) {
	limit, err := within("limit", in.Limit, 50, 1000)
	if err != nil {
		return nil, err
	}
	if in.Before < 0 || in.After != nil && *in.After < 0 {
		return nil, problem(http.StatusUnprocessableEntity, "before and after are seqs of messages. Allowed: 1 and more, for after also 0.")
	}
	stretch := Stretch{View: "user", Limit: limit, Before: in.Before}
	if in.After != nil {
		stretch.After, stretch.forward = *in.After, true
	}
	if in.Tools {
		stretch.View = "talk"
	}
	switch {
	case (in.Session == "") == (in.Conversation == ""):
		return nil, problem(http.StatusUnprocessableEntity, "One of session and conversation says what to read.")
	case in.Session != "":
		return bodyOf(c.getSessionMessages(ctx, &sessionMessages{OfSession{in.Session}, stretch}))
	}
	return bodyOf(c.getChat(ctx, &chatMessages{OfChat{in.Conversation}, stretch}))
}

// mcpPage is a page of a list.
type mcpPage struct {
	Text   string `json:"text,omitempty" jsonschema:"stands in the key, the place or a title"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many at most, up to 200; default 50"`
	Cursor string `json:"cursor,omitempty" jsonschema:"where the page begins: the next of the page before"`
}

func (p mcpPage) page() (Page, error) {
	limit, err := within("limit", p.Limit, 50, 200)
	return Page{Limit: limit, Cursor: p.Cursor}, err
}

type mcpSessions struct {
	mcpPage
	Channel string `json:"channel,omitempty" jsonschema:"only those of this channel, such as telegram"`
}

func (c *Channel) mcpSessions(ctx context.Context, _ *mcp.CallToolRequest, in mcpSessions) (any, error) {
	page, err := in.page()
	if err != nil {
		return nil, err
	}
	return bodyOf(c.listSessions(ctx, &listSessions{Page: page, Channel: in.Channel, Text: in.Text}))
}

type mcpConversations struct {
	mcpPage
	Session string `json:"session,omitempty" jsonschema:"only those of the session with this key"`
}

func (c *Channel) mcpConversations(ctx context.Context, _ *mcp.CallToolRequest, in mcpConversations) (any, error) {
	page, err := in.page()
	if err != nil {
		return nil, err
	}
	filter := ChatFilter{Page: page, Text: in.Text}
	if in.Session != "" {
		return bodyOf(c.listSessionChats(ctx, &listSessionChats{OfSession{in.Session}, filter}))
	}
	return bodyOf(c.listChats(ctx, &listChats{ChatFilter: filter}))
}

type mcpSend struct {
	Session        string `json:"session" jsonschema:"the key of the session: api: and a name that you choose"`
	Text           string `json:"text" jsonschema:"what is said; a command such as /new works as well"`
	IdempotencyKey string `json:"idempotency_key,omitempty" jsonschema:"the message's id in its session: a repeat with the same key and text gets the first answer; letters, digits and . _ ~ : @ + = -"`
	Wait           *int   `json:"wait,omitempty" jsonschema:"how many seconds to wait for the answer, up to 600; default 50"`
}

// mcpSend sends a message and waits for the answer. A repeated call sends nothing again.
func (c *Channel) mcpSend(ctx context.Context, r *mcp.CallToolRequest, in mcpSend) (any, error) {
	key, err := ownKey(in.Session)
	if err != nil {
		return nil, err
	}
	if given, is := r.Params.Meta["idempotencyKey"].(string); is && in.IdempotencyKey == "" {
		in.IdempotencyKey = given
	}
	if _, err := parseID(in.IdempotencyKey); err != nil { // which names the header
		return nil, problem(http.StatusBadRequest, "idempotency_key: %q is not allowed: "+idRule, shorten(in.IdempotencyKey))
	}
	wait := mcpWait
	if in.Wait != nil {
		wait = *in.Wait
	}
	if wait < 0 || wait > mcpLongWait {
		return nil, problem(http.StatusUnprocessableEntity, "wait is %d. Allowed: 0 to %d seconds.", wait, mcpLongWait)
	}
	q, err := newQuestion(key, in.IdempotencyKey, in.Text, nil)
	if err != nil {
		return nil, err
	}
	if err := c.take(ctx, &q); err != nil {
		return nil, err
	}
	a, err := c.await(ctx, q, preference{bounded: true, wait: time.Duration(wait) * time.Second}, untilAsked{})
	if err != nil && !errors.Is(err, errWaited) {
		return nil, c.unanswered(ctx, q, err)
	}
	return c.answerOf(ctx, q, a)
}

// mcpResource returns a conversation as Markdown.
func (c *Channel) mcpResource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	known, err := c.Store.Conversation(ctx, strings.TrimPrefix(r.Params.URI, resourceOfChats))
	if errors.Is(err, conversation.ErrNotFound) || errors.Is(err, conversation.ErrInvalid) {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	if err != nil {
		return nil, c.problemOf(ctx, err)
	}
	of, err := catalog.New(c.Store).Session(ctx, known.Key)
	if err != nil {
		return nil, c.problemOf(ctx, err)
	}
	text := &boundedText{left: mostOfResource}
	if err := c.write(ctx, text, []conversation.Conversation{known}, of, transcript.Markdown, false); err != nil {
		if text.left < 0 {
			return nil, fmt.Errorf("the conversation has more than %d MiB; read_messages reads it page by page", mostOfResource>>20)
		}
		return nil, c.problemOf(ctx, err)
	}
	return &mcp.ReadResourceResult{Cacheable: mcp.Cacheable{CacheScope: "private"}, Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "text/markdown", Text: text.String()}}}, nil
}

// boundedText keeps what is written, and fails when that is too much.
type boundedText struct {
	strings.Builder
	left int
}

func (b *boundedText) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("too long")
	}
	return b.Builder.Write(p)
}

// within returns a number of a request, which must be between 1 and most, and another one in place of 0, which
// stands for none.
func within(name string, n, byDefault, most int) (int, error) {
	switch {
	case n == 0:
		return byDefault, nil
	case n < 0 || n > most:
		return 0, problem(http.StatusUnprocessableEntity, "%s is %d. Allowed: 1 to %d.", name, n, most)
	}
	return n, nil
}
