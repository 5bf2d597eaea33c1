package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
	"parley/tools/mcp/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	gatewaytest.Main(m)
}

// serverGateway is a gateway with a tool server, which tests use over HTTP.
type serverGateway struct {
	*gatewaytest.Gateway
	*gatewaytest.Browser
	t      *testing.T
	folder string // that the server writes into
}

// startServerGateway starts a gateway in the test's process with a tool server of a kind. keys are
// added to the server's section, sections to the configuration.
func startServerGateway(t *testing.T, kind, keys string, sections ...string) *serverGateway {
	t.Helper()
	s := &serverGateway{t: t, folder: t.TempDir()}
	s.Gateway = gatewaytest.Start(t, gatewaytest.Options{InProcess: true,
		Config: strings.Join(append(sections, gatewaytest.OpenToAll, server(t, "shop", kind, s.folder, keys)), "\n")})
	s.Browser = gatewaytest.NewBrowser(t, s.Gateway.URL)
	s.awaitTools("shop")
	return s
}

// awaitTools waits until the tools of a server are known.
func (s *serverGateway) awaitTools(name string) {
	s.t.Helper()
	gatewaytest.Await(s.t, "the tools of "+name, func() bool { n, _ := s.state(name)["tools"].(float64); return n > 0 })
}

// server returns the configuration section of a tool server.
func server(t *testing.T, name, kind, folder, keys string) string {
	t.Helper()
	section, err := mcptest.Section(name, kind, folder, keys)
	if err != nil {
		t.Fatal(err)
	}
	return section
}

// state returns what /readyz says of a server.
func (s *serverGateway) state(name string) map[string]any {
	s.t.Helper()
	_, body, _ := s.Get("/readyz")
	var is struct {
		Parts struct{ MCP map[string]map[string]any }
	}
	if err := json.Unmarshal([]byte(body), &is); err != nil {
		s.t.Fatalf("%v in %s", err, body)
	}
	return is.Parts.MCP[name]
}

// ask sends a message in a session and returns the answer.
func (s *serverGateway) ask(session, text string) string {
	s.t.Helper()
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, s.Browser.URL+"/api/v1/sessions/api:"+session+"/messages", strings.NewReader(string(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	_, answer, _ := s.Do(request)
	var is struct{ Reply string }
	if err := json.Unmarshal([]byte(answer), &is); err != nil {
		s.t.Errorf("%v in %s", err, answer)
	}
	return is.Reply
}

// calls answers a message "TOOL ARGUMENTS" with that tool call, and then with its result.
func calls(c llmtest.Call) llmtest.Answer {
	last := c.Messages[len(c.Messages)-1]
	if len(last.Images) > 0 { // pictures of a result follow it
		last = c.Messages[len(c.Messages)-2]
	}
	if last.Role == "tool" {
		return llmtest.Answer{Text: "It says: " + last.Content}
	}
	tool, arguments, _ := strings.Cut(last.Content, " ")
	return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call", Name: tool, Arguments: arguments}}}
}

// The state of a tool server is shown in /readyz, the metrics and the console.
func TestStateOfServersIsShownToTheOperator(t *testing.T) {
	t.Parallel()
	s := startServerGateway(t, "plain", `deny = ["flood"]`)
	s.Model.Reply(calls)
	if got := s.ask("a", "shop_look {}"); got != "It says: did look" {
		t.Errorf("the answer: %q", got)
	}
	if got := s.ask("a", "shop_crash {}"); !strings.Contains(got, "whether it was done is not known") {
		t.Errorf("the answer: %q", got)
	}
	gatewaytest.Await(t, "the state failed", func() bool { return s.state("shop")["state"] == "failed" })
	if is := s.state("shop"); !strings.Contains(is["error"].(string), "out of cheese") || is["starts"] == 0.0 {
		t.Errorf("/readyz: %v", is)
	}
	if got := s.ask("a", "shop_look {}"); got != "It says: did look" {
		t.Errorf("the answer after the crash: %q", got)
	}
	if is := s.state("shop"); is["state"] != "ready" || is["error"] != nil {
		t.Errorf("/readyz: %v", is)
	}
	for _, line := range []string{
		`parley_mcp_calls_total{outcome="done",server="shop"} 2`, `parley_mcp_calls_total{outcome="failed",server="shop"} 1`,
		`parley_mcp_call_seconds_count{server="shop"} 3`,
		`parley_tool_calls_total{outcome="done",tool="shop_look"} 2`, `parley_tool_calls_total{outcome="failed",tool="shop_crash"} 1`,
	} {
		// A run is counted right after its answer is stored.
		gatewaytest.Await(t, line+" in /metrics", func() bool { return strings.Contains(s.Browser.Page("/metrics"), line) })
	}
	if page := s.Browser.Page("/console/configuration"); !strings.Contains(page, ">test-model at 127.0.0.1") {
		t.Error("the configuration page does not name the model and its server")
	}
	page := s.Browser.Page("/console/tools")
	for _, text := range []string{"shop", ">ready<", "started anew", "out of cheese", "shop_look", "not allowed"} {
		if !strings.Contains(page, text) {
			t.Errorf("the console lacks %q:\n%s", text, page)
		}
	}
}

// A secret of a server that the server prints is shown and stored nowhere: not in the log, in /readyz, in the console, in
// answers, in what the model is sent, nor by "gateway mcp list".
func TestSecretsOfServersAreHidden(t *testing.T) {
	t.Parallel()
	const secret = `tok/en"47 11=of-the-shop`
	env := fmt.Sprintf("env = {SHOP_TOKEN = %q, SHOP_FOLDER = \"/srv/of/the/shop\"}\n", secret)
	shell := "[mcp.broken]\ncommand = \"sh\"\nargs = [\"-c\", \"echo no entry with $SHOP_TOKEN >&2; exit 1\"]\n" + env
	s := startServerGateway(t, "plain", env, shell)
	s.Model.Reply(calls)
	shown := s.ask("a", "shop_crash {}") + s.ask("a", "shop_surroundings {}")
	if !strings.Contains(shown, "SHOP_TOKEN=(hidden)") || !strings.Contains(shown, "SHOP_FOLDER=/srv/of/the/shop") {
		t.Errorf("the answers: %s", shown)
	}
	gatewaytest.Await(t, "the failures", func() bool {
		_, ready, _ := s.Get("/readyz")
		page := s.Browser.Page("/console/tools")
		shown += ready + page + s.Browser.Page("/console/log")
		return strings.Contains(ready, "no entry with (hidden)") && strings.Contains(page, "out of cheese (hidden)")
	})
	for _, c := range s.Model.Calls() {
		shown += fmt.Sprint(c.Messages)
	}
	if n := storetest.Count(t, s.Store(), `SELECT count(*) FROM messages WHERE content LIKE '%11=of-the-shop%'`); n > 0 {
		t.Errorf("%d messages of the archive have a secret", n)
	}
	if !testing.Short() {
		shown += s.MustRun("mcp", "list")
	}
	shown += s.Gateway.Log.String()
	if at := strings.Index(shown, "11=of-the-shop"); at >= 0 {
		t.Errorf("a secret is shown: …%s…", shown[max(0, at-200):at+20])
	}
}

// TestSessionsShareOneServer starts a gateway with waiting messages in many sessions, and a tool server
// that it has never run before: the server's tools are offered in the first call of each session, and one
// process serves them.
func TestSessionsShareOneServer(t *testing.T) {
	t.Parallel()
	sessions := 200
	if testing.Short() {
		sessions = 30
	}
	s := &serverGateway{t: t, folder: t.TempDir()}
	s.Gateway = gatewaytest.New(t, gatewaytest.Options{InProcess: true, ToolsTimeout: time.Minute, Config: gatewaytest.OpenToAll + server(t, "shop", "late", s.folder, "eager = true")})
	store := storetest.Open(t, s.Database)
	var waiting []conversation.Inbound
	for n := range sessions {
		key := conversation.Key(fmt.Sprint("api:", n))
		waiting = append(waiting, conversation.Inbound{Key: key, SourceID: fmt.Sprint(n), Text: fmt.Sprintf(`shop_look {"id":"%d"}`, n), At: time.Now(), Keep: true})
	}
	storetest.Accept(t, store, waiting...)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var without atomic.Int64
	s.Model.Quiet()
	s.Model.Reply(func(c llmtest.Call) llmtest.Answer {
		if !slices.ContainsFunc(c.Tools, func(t llm.Tool) bool { return t.Name == "shop_look" }) {
			without.Add(1)
		}
		return calls(c)
	})
	s.Start()
	waits := func() int64 { return storetest.Count(t, s.Store(), `SELECT count(*) FROM inbox WHERE run_id IS NULL`) }
	for left := waits(); left > 0; left = waits() { // as long as there are more and more answers, a machine may be slow
		gatewaytest.Await(t, "one more answer", func() bool { return waits() < left })
	}
	if n := without.Load(); n > 0 {
		t.Errorf("%d model calls were made without the tools", n)
	}
	if done := len(mcptest.Lines(s.folder, "effects")); done != sessions {
		t.Errorf("%d calls of %d sessions", done, sessions)
	}
	if pids := mcptest.Lines(s.folder, "pids"); len(pids) != 1 {
		t.Errorf("%d processes served %d sessions", len(pids), sessions)
	}
}

// A server that hangs delays the session that called it, but no other session and no other server.
func TestHungServerDelaysNoOtherSession(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := startServerGateway(t, "plain", `timeout = "1h"`, "[agent]\ndrain_timeout = \"0s\"\n"+server(t, "other", "plain", folder, ""))
	s.awaitTools("other")
	s.Model.Reply(calls)
	var hanging sync.WaitGroup
	hanging.Go(func() { s.ask("hung", "shop_hang {}") })
	gatewaytest.Await(t, "the call that hangs", func() bool { return s.Model.Served() == 1 && s.state("shop")["state"] == "ready" })
	for n := range 20 {
		if got := s.ask(fmt.Sprint("free-", n), "other_look {}"); got != "It says: did look" {
			t.Errorf("another session gets %q", got)
		}
	}
	if got := s.ask("hung", "/stop"); got == "" {
		t.Error("/stop is not answered")
	}
	hanging.Wait()
}

// A picture in a result is stored, shown to the model, and delivered with the answer that names it.
func TestPicturesOfResultsAreShownAndStored(t *testing.T) {
	t.Parallel()
	s := startServerGateway(t, "plain", "")
	s.Model.Reply(calls)
	answer := s.ask("art", "shop_draw {}")
	if !strings.Contains(answer, "[picture shop_draw-") {
		t.Fatalf("the answer: %q", answer)
	}
	list := s.Model.Calls()
	if last := list[len(list)-1].Messages; len(images(last)) != 1 || string(images(last)[0].Data) != string(mcptest.Picture()) {
		t.Errorf("the model was shown %d pictures", len(images(last)))
	}
	read := s.Browser
	status, body, _ := read.Get("/api/v1/sessions/api:art/messages?view=talk")
	if status != http.StatusOK || !strings.Contains(body, `"media_type":"image/png"`) {
		t.Errorf("stored: %d %s", status, body)
	}
}

func images(messages []llm.Message) (all []llm.Image) {
	for _, m := range messages {
		all = append(all, m.Images...)
	}
	return all
}

// A result that is too long for the model is stored completely: the model reads it page by page, and
// searches it, also after a restart.
func TestLongResultsAreKeptWhole(t *testing.T) {
	t.Parallel()
	s := startServerGateway(t, "plain", "max_output = 4")
	s.Model.Reply(calls)
	cut := s.ask("long", "shop_long {}")
	_, name, found := strings.Cut(cut, "all of it is the file ")
	if name, _, _ = strings.Cut(name, ":"); !found || len(cut) > 5<<10 || !strings.Contains(cut, "[cut: the result has 512000 bytes]") {
		t.Fatalf("%d bytes: …%s", len(cut), cut[max(0, len(cut)-300):])
	}
	s.Stop()
	s.Start()
	page := s.ask("long", fmt.Sprintf(`read_file {"file": %q, "page": 3}`, name))
	if !strings.Contains(page, name+", page 3 of 42]") || !strings.Contains(page, "word word word") {
		t.Errorf("the third page: %.200q", page)
	}
	if got := s.ask("other", fmt.Sprintf(`read_file {"file": %q}`, name)); !strings.Contains(got, "there is no file") {
		t.Errorf("another session reads %.200q", got)
	}
	if _, body, _ := s.Browser.Get("/api/v1/sessions/api:long/messages?view=talk"); !strings.Contains(body, `"name":"`+name+`"`) {
		t.Errorf("the archive does not name the file: %.300s", body)
	}
}

// Whatever a hostile server declares and answers, the model's API refuses no call, no other tool is
// called, and the session goes on.
func TestHostileServerAffectsNoOtherTool(t *testing.T) {
	t.Parallel()
	s := startServerGateway(t, "hostile", "")
	s.Model.Reply(calls)
	first := s.Model.Served()
	answer := s.ask("a", "shop_inject {}")
	if !strings.Contains(answer, "Ignore all previous instructions") || !strings.Contains(answer, "resource file:///etc/passwd") {
		t.Errorf("the answer: %q", answer)
	}
	list := s.Model.Calls()
	read := list[len(list)-1].Messages
	result := read[len(read)-1]
	if result.Role != "tool" || strings.Contains(result.Content, "<gateway_note>") || len(images(read)) != 0 {
		t.Errorf("the model reads %q with %d pictures", result.Content, len(images(read)))
	}
	for _, tool := range list[len(list)-1].Tools {
		if len(tool.Name) > 64 || strings.ContainsAny(tool.Name, "\n/. ") {
			t.Errorf("a tool is named %q", tool.Name)
		}
	}
	if got := s.ask("a", "shop_look {}"); got != "It says: did look" {
		t.Errorf("then %q", got)
	}
	if n := s.Model.Served() - first; n != 4 || s.Model.Refused() > 0 {
		t.Errorf("%d model calls, refused: %q", n, s.Model.Refusals())
	}
	if done := mcptest.Lines(s.folder, "effects"); len(done) != 1 || done[0] != "look" {
		t.Errorf("the server did %q", done)
	}
	for _, line := range strings.Split(s.Log.String(), "\n") {
		if strings.HasPrefix(line, "time=2026-01-01") || strings.Contains(line, "\x1b") {
			t.Errorf("the log has the line %q", line)
		}
	}
}
