package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/conversation/toollists"
	"parley/internal/waittest"
	"parley/tools"
	"parley/tools/mcp/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	runConformanceClient()
	os.Exit(m.Run())
}

// harness is a registry with the tools of one server.
type harness struct {
	*Servers
	t        *testing.T
	registry *tools.Registry
	folder   string // that the server writes into
	log      *waittest.Buffer
}

// serve runs a server of some kind with the tools of this test.
func serve(t *testing.T, kind string, change func(*Config, *Options)) *harness {
	t.Helper()
	h := &harness{t: t, folder: t.TempDir(), log: &waittest.Buffer{}, registry: &tools.Registry{}}
	var c Config
	c.SetDefaults()
	var err error
	if c.Command, c.Args, err = mcptest.Command(kind, h.folder); err != nil {
		t.Fatal(err)
	}
	o := Options{Log: slog.New(slog.NewTextHandler(h.log, nil)), Offer: h.registry.Replace, StartTimeout: 90 * time.Second}
	if change != nil {
		change(&c, &o)
	}
	h.Servers = New(map[string]Config{"shop": c}, o)
	t.Cleanup(h.Close)
	return h
}

// await waits until the tools of the server are known.
func (h *harness) await() *harness {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer cancel()
	h.Run(ctx)
	if len(h.registry.List()) == 0 {
		h.t.Fatalf("no tools: %+v", h.Status())
	}
	return h
}

func (h *harness) call(name, arguments string) (string, error) {
	result, err := h.registry.Call(h.t.Context(), name, arguments, time.Minute)
	return result.Text, err
}

func (h *harness) names() (names []string) {
	for _, tool := range h.registry.List() {
		names = append(names, tool.Name)
	}
	return names
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatal("never happened: " + what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A call that comes while a server runs only to list its tools is completed before the server is stopped.
func TestCallWhileAServerIsListed(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			var h *harness
			var calls sync.WaitGroup
			call := sync.OnceFunc(func() {
				for range 4 {
					calls.Go(func() {
						if got, err := h.call("shop_pay", "{}"); err != nil || got != "did pay" {
							t.Errorf("the call: %q, %v", got, err)
						}
					})
				}
				time.Sleep(20 * time.Millisecond) // until they wait for the connection, as Run does
			})
			h = serve(t, "plain", func(_ *Config, o *Options) {
				replace := o.Offer
				o.Offer = func(name string, list []tools.Tool) []string {
					defer call()
					return replace(name, list)
				}
			})
			h.Run(t.Context())
			calls.Wait()
		})
	}
	running.Wait()
}

// When a hostile server makes a call fail, the model is told why, and the next call works.
func TestHostileServerHarmsOnlyItsOwnCall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tool, says string }{
		{"fail", "error: the shop is closed"},
		{"crash", "error: the server shop ended while this ran: whether it was done is not known"},
		{"flood", "error: the server shop ended while this ran"},
		{"garbage", "error: the server shop ended while this ran"}, // JSON that is no message ends the connection
		{"hang", "error: shop_hang did not finish within"},
		{"no_such", `error: there is no tool "shop_no_such"`},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			t.Parallel()
			h := serve(t, "", func(c *Config, _ *Options) {
				c.Timeout = 10 * time.Minute // a busy machine takes long for the 50 MiB of a flood
				if tt.tool == "hang" {
					c.Timeout = 3 * time.Second // enough for a call that works
				}
			}).await()
			text, err := h.call("shop_"+tt.tool, "{}")
			if err == nil || !strings.HasPrefix(text, tt.says) {
				t.Errorf("got %q, %v; want %q", text, err, tt.says)
			}
			eventually(t, "a call that works", func() bool {
				text, _ := h.call("shop_look", "{}")
				return text == "did look"
			})
			if n := len(mcptest.Lines(h.folder, "effects")); tt.tool == "crash" && n != 2 {
				t.Errorf("%d effects, want one of the crash and one of the look", n)
			}
		})
	}
}

// When the list changes during a call, the call succeeds, and the new tools are offered in a stable order,
// under names that models' APIs accept.
func TestListChangesDuringACall(t *testing.T) {
	t.Parallel()
	h := serve(t, "", func(c *Config, _ *Options) { c.Deny = []string{"f*"} }).await()
	before := h.names()
	if text, err := h.call("shop_grow", ""); err != nil || text != "grown" {
		t.Fatalf("%q, %v", text, err)
	}
	eventually(t, "the new tool", func() bool { return len(h.names()) == len(before)+1 })
	after := h.names()
	i := slices.IndexFunc(after, func(name string) bool { return strings.HasPrefix(name, "shop_new_tool_") })
	if i < 0 || !slices.Equal(slices.Delete(slices.Clone(after), i, i+1), before) {
		t.Fatalf("was %q, is %q", before, after)
	}
	if text, err := h.call(after[i], "{}"); err != nil || text != "did new" {
		t.Errorf("%q, %v", text, err)
	}
	if h.registry.Has("shop_flood") || h.registry.Has("shop_fail") {
		t.Error("a denied tool is offered")
	}
}

// The model is shown a result up to the limit, and told of the rest.
func TestLongResultIsCut(t *testing.T) {
	t.Parallel()
	h := serve(t, "", func(c *Config, _ *Options) { c.MaxOutput = 1 }).await()
	text, err := h.call("shop_long", "{}")
	if err != nil || len(text) > 1100 || !strings.HasSuffix(text, "[cut: the result has 512000 bytes]") {
		t.Errorf("%d bytes, %v: …%s", len(text), err, text[max(0, len(text)-50):])
	}
}

// A server inherits nothing from the gateway beside what its section names: no environment variables and no
// open files.
func TestServerInheritsNothing(t *testing.T) {
	t.Setenv("TELEGRAM_TOKEN", "a-token-that-leaks")
	secret := filepath.Join(t.TempDir(), "open")
	f, err := os.Create(secret)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := serve(t, "", func(c *Config, o *Options) {
		c.Env = map[string]string{"SHOP": "open"}
		o.Getenv = func(name string) string {
			return map[string]string{"HOME": "/home/me", "DISCORD_TOKEN": "another"}[name]
		}
	}).await()
	text, err := h.call("shop_surroundings", "{}")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	var variables []string
	for _, line := range lines {
		if strings.HasPrefix(line, "open: ") {
			if strings.Contains(line, secret) {
				t.Errorf("the server has a file of ours open: %s", line)
			}
			continue
		}
		if strings.HasPrefix(line, markName+"=") && len(line) > len(markName)+20 {
			line = markName
		}
		variables = append(variables, line)
	}
	if want := []string{"HOME=/home/me", markName, "SHOP=open"}; !slices.Equal(variables, want) {
		t.Errorf("the environment is %q, want %q", variables, want)
	}
}

// No process of a server is left when the gateway ends, even if it ignores signals.
func TestCloseLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "stubborn"} {
		h := serve(t, kind, func(c *Config, _ *Options) { c.Eager = true })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { h.Run(ctx); close(ended) }()
		eventually(t, "a server that is ready", func() bool { return h.Status()[0].State == Ready })
		stop()
		select {
		case <-ended:
		case <-time.After(90 * time.Second):
			t.Fatal("Run does not end")
		}
		if len(mcptest.Alive(h.folder)) == 0 {
			t.Fatal("no process ran")
		}
		h.Close()
		eventually(t, "the end of all processes", func() bool { return len(mcptest.Alive(h.folder)) == 0 })
	}
}

// A server that has left its process group and ends by no signal to that is ended, too. Otherwise the gateway
// would wait for it for ever when it stops.
func TestServerThatLeavesItsGroupIsEnded(t *testing.T) {
	t.Parallel()
	h := serve(t, "runaway", nil)
	if _, err := h.Probe(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		h.Close()
	}()
	select {
	case <-closed:
	case <-time.After(waittest.Patience):
		for _, pid := range mcptest.Alive(h.folder) {
			if id, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(id, syscall.SIGKILL)
			}
		}
		t.Fatal("the servers are not closed")
	}
	if left := mcptest.Alive(h.folder); len(left) > 0 {
		t.Errorf("%q still run", left)
	}
}

// A server that never answers delays neither the calls of another nor the start.
func TestServerWithoutAnswersDelaysNoOther(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := map[string]Config{}
	for name, kind := range map[string]string{"mute": "mute", "shop": ""} {
		var c Config
		c.SetDefaults()
		c.Timeout = time.Hour
		var err error
		if c.Command, c.Args, err = mcptest.Command(kind, folder); err != nil {
			t.Fatal(err)
		}
		config[name] = c
	}
	registry := &tools.Registry{}
	servers := New(config, Options{Offer: registry.Replace, StartTimeout: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { servers.Run(ctx) })
	eventually(t, "the tools of the other", func() bool { return registry.Has("shop_look") })
	if result, err := registry.Call(t.Context(), "shop_look", "{}", time.Hour); err != nil || result.Text != "did look" {
		t.Errorf("%q, %v", result.Text, err)
	}
	if is := servers.Status()[0]; is.Name != "mute" || is.State != Starting {
		t.Errorf("the mute server is %+v", is)
	}
	stop()
	running.Wait()
	servers.Close()
}

// After a restart the model is offered the same tools before the server runs, and the first
// call starts it. With other settings, the stored list does not count.
func TestListIsKnownAfterARestart(t *testing.T) {
	t.Parallel()
	lists := toollists.New(storetest.New(t))
	first := serve(t, "", func(_ *Config, o *Options) { o.Lists = lists }).await()
	if is := first.Status()[0]; is.State != Idle {
		t.Errorf("a server that nobody called is %s", is.State)
	}
	again := serve(t, "", func(c *Config, o *Options) { o.Lists, c.Args = lists, first.list[0].config.Args })
	if err := again.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first.names(), again.names()) {
		t.Errorf("first %q, again %q", first.names(), again.names())
	}
	again.Run(t.Context()) // returns at once: all is known
	if again.Status()[0].Starts != 0 {
		t.Error("the server was started although its tools are known")
	}
	if text, err := again.call("shop_look", "{}"); err != nil || text != "did look" {
		t.Errorf("%q, %v", text, err)
	}
	other := serve(t, "mute", func(_ *Config, o *Options) { o.Lists = lists })
	if err := other.Load(t.Context()); err != nil || len(other.names()) != 0 {
		t.Errorf("another server has the tools %q, %v", other.names(), err)
	}
}

// Waiting for tools ends when no server can list further ones.
func TestToolsAreAwaited(t *testing.T) {
	t.Parallel()
	lists := toollists.New(storetest.New(t))
	first := serve(t, "", func(_ *Config, o *Options) { o.Lists = lists }).await()
	known := serve(t, "", func(c *Config, o *Options) { o.Lists, c.Args = lists, first.list[0].config.Args })
	if err := known.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if starting := known.AwaitTools(t.Context()); len(starting) != 0 || known.Status()[0].Starts != 0 {
		t.Errorf("%q are awaited though their lists are known", starting)
	}

	listed := serve(t, "", nil)
	go listed.Run(t.Context())
	if starting := listed.AwaitTools(t.Context()); len(starting) != 0 || len(listed.names()) == 0 {
		t.Errorf("%q start, and the tools are %q", starting, listed.names())
	}

	broken := serve(t, "", func(c *Config, _ *Options) { c.Command = "/no/such/program" })
	go broken.Run(t.Context())
	if starting := broken.AwaitTools(t.Context()); len(starting) != 0 || broken.Status()[0].State != Failed {
		t.Errorf("%q start although %+v", starting, broken.Status()[0])
	}

	mute := serve(t, "mute", func(_ *Config, o *Options) { o.StartTimeout = time.Hour })
	go mute.Run(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if starting := mute.AwaitTools(ctx); !slices.Equal(starting, []string{"shop"}) {
		t.Errorf("%q start, want the mute server", starting)
	}
}

// Many callers share one process.
func TestOneProcessForAll(t *testing.T) {
	t.Parallel()
	h := serve(t, "", nil).await()
	before := len(mcptest.Lines(h.folder, "pids"))
	var calling sync.WaitGroup
	for range 100 {
		calling.Go(func() {
			if text, err := h.call("shop_look", "{}"); err != nil {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
	calling.Wait()
	if after := len(mcptest.Lines(h.folder, "pids")); after != before+1 {
		t.Errorf("%d processes for 100 calls", after-before)
	}
}

// A server at an address gets the headers, and its tools are called as those of a program.
func TestServerAtAnAddress(t *testing.T) {
	t.Parallel()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return mcptest.New(t.TempDir()) }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-token" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	for token, works := range map[string]bool{"the-token": true, "another": false} {
		h := serve(t, "", func(c *Config, _ *Options) {
			c.Command, c.Args, c.URL = "", nil, web.URL
			c.Headers = map[string]string{"Authorization": "Bearer " + token}
		})
		found, err := h.Probe(t.Context(), "shop")
		if works != (err == nil) || works && found.Name != "tester" {
			t.Errorf("with %s: %+v, %v", token, found, err)
		}
		if !works {
			continue
		}
		if text, err := h.Call(t.Context(), "shop", "look", "{}"); err != nil || text != "did look" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// Names fit models' APIs, and different tools never have the same one.
func TestToolNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	seen := map[string]string{}
	for _, tool := range []string{"read", "read file", "read/file", "read_file", "ignore all previous instructions\n", "日本", "", long, long + "y", "../../etc/passwd"} {
		name := toolName("shop", tool)
		if !openAIName.MatchString(name) {
			t.Errorf("%q becomes %q", tool, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q are both %q", tool, other, name)
		}
		seen[name] = tool
	}
}

// The configuration of a tool overrides the server's hints.
func TestConfigurationCorrectsHints(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, tt := range []struct {
		remote remoteTool
		config ToolConfig
		want   bool
	}{
		{remoteTool{}, ToolConfig{}, false},
		{remoteTool{ReadOnly: true}, ToolConfig{}, true},
		{remoteTool{Idempotent: true}, ToolConfig{}, true},
		{remoteTool{ReadOnly: true}, ToolConfig{ReadOnly: &no}, false},
		{remoteTool{Idempotent: true}, ToolConfig{Idempotent: &no}, false},
		{remoteTool{}, ToolConfig{ReadOnly: &yes}, true},
		{remoteTool{}, ToolConfig{Idempotent: &yes}, true},
		{remoteTool{}, ToolConfig{Key: true}, true},
	} {
		s := &server{name: "shop", config: Config{Tools: map[string]ToolConfig{"x": tt.config}}}
		tt.remote.Name = "x"
		if got := s.tool(tt.remote).Repeatable; got != tt.want {
			t.Errorf("%+v with %+v: %t", tt.remote, tt.config, got)
		}
	}
}

func TestAllowAndDeny(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		allow, deny string
		name        string
		want        bool
	}{
		{"", "", "read", true},
		{"read*", "", "read_file", true},
		{"read*", "", "write", false},
		{"*", "write*", "write_file", false},
		{"resource:file:///docs/*", "", "resource:file:///docs/a/b", true},
		{"resource:file:///docs/*", "", "resource:file:///etc/passwd", false},
		{"a.c", "", "abc", false},
	} {
		var c Config
		if tt.allow != "" {
			c.Allow = []string{tt.allow}
		}
		if tt.deny != "" {
			c.Deny = []string{tt.deny}
		}
		if got := c.allows(tt.name); got != tt.want {
			t.Errorf("allow %q, deny %q, %s: %t", tt.allow, tt.deny, tt.name, got)
		}
	}
	for allow, want := range map[string]bool{"": true, "read*": false, "resource:*": true, "*": true, "resource:file:///a": true, "r*": true} {
		var c Config
		if allow != "" {
			c.Allow = []string{allow}
		}
		if got := c.allowsSome(resourcePrefix); got != want {
			t.Errorf("allow %q: %t", allow, got)
		}
	}
}

// A call with a key carries it to the server, the same for the same call.
func TestCallCarriesItsKey(t *testing.T) {
	t.Parallel()
	h := serve(t, "", func(c *Config, _ *Options) { c.Tools = map[string]ToolConfig{"order": {Key: true}} }).await()
	for _, key := range []string{"one", "two"} {
		if _, err := h.registry.Call(tools.WithCallKey(t.Context(), key), "shop_order", "{}", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := h.registry.Call(tools.WithCallKey(t.Context(), key), "shop_pay", "{}", 0); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(mcptest.Lines(h.folder, "effects")), "[order one pay order two pay]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

var openAIName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Whatever descriptions a server sends, the model's API accepts the tools, and tools of one server never
// replace those of another.
func TestHostileDescriptionsAreCleaned(t *testing.T) {
	t.Parallel()
	h := serve(t, "hostile", func(_ *Config, o *Options) {
		registry, err := tools.NewRegistry(tools.Tool{Name: "shop_pay"})
		if err != nil {
			t.Fatal(err)
		}
		offer := o.Offer
		o.Offer = func(server string, list []tools.Tool) []string {
			offer(server, list)
			return registry.Replace(server, list)
		}
	}).await()
	for _, tool := range h.registry.List() {
		var schema struct {
			Type       string
			Properties map[string]any
			Required   []string

			OneOf, Not any
		}
		if err := json.Unmarshal(tool.Parameters, &schema); err != nil || schema.Type != "object" || schema.Properties == nil || schema.OneOf != nil || schema.Not != nil {
			t.Errorf("%s has the parameters %.200s, %v", tool.Name, tool.Parameters, err)
		}
		if !openAIName.MatchString(tool.Name) || len([]rune(tool.Description)) > maxDescription || strings.ContainsAny(tool.Description, "\x00\x1b\r") {
			t.Errorf("%q: %q", tool.Name, tool.Description)
		}
	}
	left := strings.Join(h.Status()[0].LeftOut, "\n")
	if !strings.Contains(left, "huge: its parameters take more than 64 KiB") || !strings.Contains(left, "shop_pay: another tool has this name") {
		t.Errorf("left out: %s", left)
	}
	if text := h.log.String(); strings.Count(text, "level=ERROR") > 0 {
		t.Errorf("the log: %s", text)
	}
}

// Invalid arguments are refused with an explanation, by the gateway or the server.
func TestInvalidArgumentsAreExplained(t *testing.T) {
	t.Parallel()
	h := serve(t, "", func(c *Config, _ *Options) { c.Timeout = 90 * time.Second }).await()
	for _, arguments := range []string{"{", "nonsense", `{"id": `, "\x00"} {
		if text, err := h.call("shop_look", arguments); err == nil || !strings.HasPrefix(text, "error: ") {
			t.Errorf("%q: %q, %v", arguments, text, err)
		}
	}
	for _, arguments := range []string{`[1]`, `"text"`, `7`, `null`, `{"id": 7}`, `{"__proto__": {}, "id": "$(reboot)"}`, `{"id": "` + strings.Repeat("x", 1<<20) + `"}`} {
		if text, _ := h.call("shop_look", arguments); text == "" {
			t.Errorf("%.50q: no word", arguments)
		}
	}
	if text, err := h.call("shop_look", "{}"); err != nil || text != "did look" {
		t.Errorf("then %q, %v", text, err)
	}
}

// A question for which no person can be asked is declined, and the call goes on.
func TestServerThatAsksNobodyIsDeclined(t *testing.T) {
	t.Parallel()
	h := serve(t, "2025", nil).await()
	if text, err := h.call("shop_ask", "{}"); err != nil || text != "cancel null" {
		t.Errorf("the server is answered %q, %v", text, err)
	}
	if text, err := h.call("shop_look", "{}"); err != nil || text != "did look" || strings.Contains(h.log.String(), "ended") {
		t.Errorf("then %q, %v", text, err)
	}
	again := serve(t, "plain", nil).await()
	if text, _ := again.call("shop_choose", "{}"); !strings.Contains(text, `wants to ask the user, which it can't do here: "Which colour?"`) {
		t.Errorf("the model is told %q", text)
	}
}

// callAs calls a tool in a session, as the run with this number does.
func (h *harness) callAs(session string, run int64, tool, arguments string, input ...tools.Input) (string, error) {
	ctx := tools.WithSession(h.t.Context(), tools.Session{Key: conversation.Key(session), Asked: conversation.Inbound{ID: run}})
	ctx = tools.WithCallKey(ctx, fmt.Sprint(session, run, tool, arguments))
	for _, in := range input {
		ctx = tools.WithInput(ctx, in)
	}
	result, err := h.registry.Call(ctx, tool, arguments, time.Minute)
	return result.Text, err
}

// The protocol does not say to which call a question belongs. While calls of two sessions are under way,
// questions are declined, since the wrong session might see them.
func TestQuestionIsNeverAskedInAnotherSession(t *testing.T) {
	t.Parallel()
	h := serve(t, "2025", nil).await()
	hold := filepath.Join(h.folder, mcptest.Hold)
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	calls.Go(func() {
		if text, err := h.callAs("cli:bob", 1, "shop_pay", `{}`); err != nil || text != "did pay" {
			t.Errorf("bob's call: %q, %v", text, err)
		}
	})
	eventually(t, "bob's call", func() bool { return slices.Contains(mcptest.Lines(h.folder, "effects"), "pay") })
	calls.Go(func() {
		var needs *tools.NeedsInput
		if _, err := h.callAs("cli:ann", 2, "shop_ask", `{"id": "x"}`); !errors.As(err, &needs) || !needs.Held || len(needs.Forms[0].Fields) != 4 {
			t.Errorf("ann's call: %v", err)
			return
		}
		input := tools.Input{Held: true, Answers: map[string]tools.InputAnswer{"": {Action: tools.Accept, Content: map[string]any{"colour": "red", "size": 3.0}}}}
		if text, err := h.callAs("cli:ann", 2, "shop_ask", `{"id": "x"}`, input); err != nil || text != `accept {"colour":"red","size":3}` {
			t.Errorf("ann's call goes on: %q, %v", text, err)
		}
		if _, err := h.callAs("cli:ann", 2, "shop_ask", `{"id": "x"}`, input); err == nil {
			t.Error("an answer is taken twice")
		}
	})
	eventually(t, "ann's call", func() bool { return slices.Contains(mcptest.Lines(h.folder, "effects"), "ask x") })
	if err := os.Remove(hold); err != nil { // bob's call ends: the question is ann's
		t.Fatal(err)
	}
	calls.Wait()
}

// When calls of two sessions ask at the same time, both questions are declined.
func TestConcurrentCallsThatAskAreDeclined(t *testing.T) {
	t.Parallel()
	h := serve(t, "2025", nil).await()
	var calls sync.WaitGroup
	for _, who := range []string{"cli:ann", "cli:bob"} {
		calls.Go(func() {
			text, err := h.callAs(who, 1, "shop_ask", `{}`)
			var needs *tools.NeedsInput
			if text != "cancel null" && !errors.As(err, &needs) { // the first may be asked before the second call begins
				t.Errorf("%s: %q, %v", who, text, err)
			}
		})
	}
	calls.Wait()
}

// A server that was started for its list alone may say, while it is ended, that its tools have changed.
func TestChangedToolsOfAnEndedServerAreNoFailure(t *testing.T) {
	t.Parallel()
	here, there := sdk.NewInMemoryTransports()
	shop := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	shop.AddTool(&sdk.Tool{Name: "look", InputSchema: map[string]any{"type": "object"}}, nil)
	if _, err := shop.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "parley", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := &waittest.Buffer{}
	s := newServer(t.Context(), "shop", Config{}, nil, Options{Log: slog.New(slog.NewTextHandler(log, nil)), StartTimeout: time.Minute})
	conn := &connection{session: session, done: make(chan struct{})}
	s.conn = conn
	s.rest(conn)
	s.listAgain(conn)
	if log.String() != "" {
		t.Errorf("the log has %s", log)
	}
	s.conn = conn // it has ended by itself
	s.listAgain(conn)
	if !strings.Contains(log.String(), "tools not listed") {
		t.Error("the log does not have that the tools were not listed")
	}
}

// A server that stays away, as for a night, is logged once, and again when it fails in another way.
func TestServerThatStaysAwayIsLoggedOnce(t *testing.T) {
	t.Parallel()
	log := &waittest.Buffer{}
	c := Config{}
	c.SetDefaults()
	c.Command = "/nowhere/tool"
	s := newServer(t.Context(), "shop", c, nil, Options{Log: slog.New(slog.NewTextHandler(log, nil)), StartTimeout: time.Minute, Getenv: os.Getenv})
	for range 3 {
		s.open(&attempt{done: make(chan struct{})})
	}
	if n := strings.Count(log.String(), "MCP server failed"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log)
	}
	s.config.Command = "/elsewhere/tool"
	s.open(&attempt{done: make(chan struct{})})
	if n := strings.Count(log.String(), "MCP server failed"); n != 2 {
		t.Errorf("logged %d times:\n%s", n, log)
	}
}
