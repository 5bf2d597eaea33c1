package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/channels/api"
	"parley/llm/llmtest"
)

// mcpClient is a client of a gateway that speaks MCP.
type mcpClient struct {
	t       *testing.T
	session *mcp.ClientSession
}

func connectMCP(t *testing.T, transport mcp.Transport) *mcpClient {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // the gateway may be gone
	return &mcpClient{t, session}
}

// bearerTransport sends a token with each request.
type bearerTransport string

func (w bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

// overHTTP connects to /mcp.
func (g *gateway) overHTTP(token string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: bearerTransport(token)}}
}

// overRelay connects as `gateway mcp serve` does.
func (g *gateway) overRelay(target func(context.Context) (string, string, error)) mcp.Transport {
	ours, theirs := mcp.NewInMemoryTransports()
	ended := make(chan error, 1)
	go func() { ended <- api.Relay(context.WithoutCancel(g.t.Context()), theirs, "test", target) }()
	g.t.Cleanup(func() {
		if err := <-ended; err != nil {
			g.t.Errorf("the relay ended with %v", err)
		}
	})
	return ours
}

// call calls a tool, and returns its result as JSON, or the text of its error.
func (m *mcpClient) call(tool string, arguments object) (result object, refused string) {
	m.t.Helper()
	got, err := m.session.CallTool(m.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		m.t.Fatalf("%s %v: %v", tool, arguments, err)
	}
	text := got.Content[0].(*mcp.TextContent).Text
	if got.IsError {
		return nil, text
	}
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		m.t.Fatalf("%s: %v in %s", tool, err, text)
	}
	return result, ""
}

// A client asks the assistant, and finds and reads messages, over HTTP and over standard input and
// output.
func TestMCPClientUsesTheGateway(t *testing.T) {
	t.Parallel()
	g := startHTTP(t, "token = \""+token+"\"")
	transports := map[string]mcp.Transport{
		"http":  g.overHTTP(token),
		"relay": g.overRelay(func(context.Context) (string, string, error) { return g.url, token, nil }),
	}
	for name, transport := range transports {
		m := connectMCP(t, transport)
		key := "api:" + name
		said := object{"session": key, "text": "Where is the " + name + " heron?", "idempotency_key": "one"}
		answer, refused := m.call("send_message", said)
		if answer["status"] != "done" || answer["reply"] != "echo: Where is the "+name+" heron?" {
			t.Fatalf("%s: the answer is %v %s", name, answer, refused)
		}
		if again, _ := m.call("send_message", said); again["run"] != answer["run"] {
			t.Errorf("%s: the repeated call is answered by run %v, the first by %v", name, again["run"], answer["run"])
		}
		m.expectRead(key, answer["conversation"].(string))
	}
	if n := g.model.Served(); n != 2 {
		t.Errorf("the model was called %d times for two messages", n)
	}
}

// expectRead finds and reads the messages of a session with each tool.
func (m *mcpClient) expectRead(key, conversation string) {
	t := m.t
	t.Helper()
	read, _ := m.call("read_messages", object{"session": key})
	if list := read["messages"].([]any); len(list) != 2 || read["more"] != nil {
		t.Errorf("%s: read %v", key, read)
	}
	read, _ = m.call("read_messages", object{"conversation": conversation, "after": 1, "limit": 1})
	if list := read["messages"].([]any); len(list) != 1 || list[0].(object)["role"] != "assistant" {
		t.Errorf("%s: behind the first message is %v", key, read)
	}
	sessions, _ := m.call("list_sessions", object{"text": key, "channel": "api"})
	if list := sessions["sessions"].([]any); len(list) != 1 || list[0].(object)["key"] != key {
		t.Errorf("%s: the sessions are %v", key, sessions)
	}
	chats, _ := m.call("list_conversations", object{"session": key})
	if list := chats["conversations"].([]any); len(list) != 1 || list[0].(object)["id"] != conversation {
		t.Errorf("%s: the conversations are %v", key, chats)
	}
	found, _ := m.call("search_messages", object{"query": "heron", "session": key})
	if _, are := found["hits"].([]any); !are { // they are found a moment later
		t.Errorf("%s: found %v", key, found)
	}
	resource, err := m.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "parley://conversations/" + conversation})
	if err != nil || !strings.Contains(resource.Contents[0].Text, "heron?") {
		t.Errorf("%s: the resource is %+v, %v", key, resource, err)
	}
	if _, err := m.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "parley://conversations/none"}); err == nil {
		m.t.Error("a conversation that does not exist is read")
	}
}

// Forbidden or wrong calls are refused with an explanation.
func TestMCPRefusalsAreInWords(t *testing.T) {
	t.Parallel()
	g := start(t)
	m := connectMCP(t, g.overHTTP(""))
	for _, tt := range []struct {
		tool      string
		arguments object
		want      string
	}{
		{"send_message", object{"session": "telegram:chat:1", "text": "hi"}, `write only in sessions whose key begins with "api:"`},
		{"send_message", object{"session": "api:a", "text": " "}, "The message is empty."},
		{"send_message", object{"session": "api:a", "text": "hi", "wait": 601}, "wait is 601. Allowed: 0 to 600 seconds."},
		{"search_messages", object{"query": strings.Repeat("ä", 1001)}, "query has 1001 characters. Allowed: at most 1000."},
		{"search_messages", object{"query": "heron", "limit": 101}, "limit is 101. Allowed: 1 to 100."},
		{"search_messages", object{"query": "heron", "skip": 1001}, "skip is 1001. Allowed: 0 to 1000."},
		{"read_messages", object{"session": "api:a", "limit": 1001}, "limit is 1001. Allowed: 1 to 1000."},
		{"read_messages", object{"session": "api:a", "before": -1}, "before and after are seqs of messages."},
		{"list_sessions", object{"limit": 201}, "limit is 201. Allowed: 1 to 200."},
		{"list_conversations", object{"limit": -1}, "limit is -1. Allowed: 1 to 200."},
		{"send_message", object{"session": "api:a", "text": "hi", "idempotency_key": "a b"}, "is not allowed"},
		{"send_message", object{"text": "hi"}, "session"},
		{"read_messages", object{}, "One of session and conversation"},
		{"read_messages", object{"session": "api:nobody"}, "There is no such session."},
		{"search_messages", object{"query": " "}, "no words"},
		{"list_sessions", object{"limit": "many"}, "limit"},
	} {
		if result, refused := m.call(tt.tool, tt.arguments); !strings.Contains(refused, tt.want) {
			t.Errorf("%s %v: %v %q, want %q", tt.tool, tt.arguments, result, refused, tt.want)
		}
	}
	if _, err := m.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "delete_session"}); err == nil {
		t.Error("a tool that does not exist was called")
	}
}

// A message whose answer takes longer than the client waits is answered by a later call.
func TestMCPClientGetsALateAnswerWithASecondCall(t *testing.T) {
	t.Parallel()
	g := start(t)
	release := make(chan struct{})
	g.model.Reply(func(c llmtest.Call) llmtest.Answer { <-release; return llmtest.Echo(c) })
	m := connectMCP(t, g.overHTTP(""))
	first, _ := m.call("send_message", object{"session": "api:slow", "text": "think", "wait": 0})
	if first["status"] != "waiting" || first["id"] == "" {
		t.Fatalf("the first call: %v", first)
	}
	close(release)
	second, _ := m.call("send_message", object{"session": "api:slow", "text": "think", "idempotency_key": first["id"]})
	if second["reply"] != "echo: think" || g.model.Served() != 1 {
		t.Errorf("the second call: %v, the model was called %d times", second, g.model.Served())
	}
}

// A request without the token is refused, and so is one of another site's page.
func TestMCPRequiresTheToken(t *testing.T) {
	t.Parallel()
	g := startHTTP(t, "token = \""+token+"\"")
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	accept := "Accept: application/json, text/event-stream"
	if got := g.do("POST", "/mcp", call, accept); got.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", got.status)
	}
	if got := g.do("POST", "/mcp", call, accept, "Authorization: Bearer wrong"); got.status != http.StatusUnauthorized {
		t.Errorf("with a wrong token: %d", got.status)
	}
	if got := g.do("POST", "/mcp", call, accept, "Authorization: Bearer "+token); got.status != http.StatusOK {
		t.Errorf("with the token: %d %s", got.status, got.text)
	}
	open := start(t)
	if got := open.do("POST", "/mcp", call, accept, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"); got.status != http.StatusForbidden {
		t.Errorf("from another site: %d", got.status)
	}
}

// A relay goes on when the gateway ends: it says that no gateway runs, and connects to the next one.
func TestMCPRelayReconnectsToTheNextGateway(t *testing.T) {
	t.Parallel()
	g := start(t)
	stopped := errors.New("no gateway serves this database")
	var running atomic.Bool
	m := connectMCP(t, g.overRelay(func(context.Context) (string, string, error) {
		if !running.Load() {
			return "", "", stopped
		}
		return g.url, "", nil
	}))
	list, err := m.session.ListTools(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "send_message" }) {
		t.Fatalf("the tools are %+v, %v", list, err)
	}
	if _, refused := m.call("list_sessions", object{}); refused != stopped.Error() {
		t.Errorf("without a gateway: %q", refused)
	}
	running.Store(true)
	if _, refused := m.call("list_sessions", object{}); refused != "" {
		t.Errorf("with a gateway: %q", refused)
	}
}
