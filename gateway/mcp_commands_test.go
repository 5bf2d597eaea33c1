package gateway_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/gateway/gatewaytest"
	"parley/tools/mcp/mcptest"
)

// The commands to try tool servers print what they find, explain failures, and leave no process behind.
func TestCommandsTryServers(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it runs the binary")
	}
	t.Parallel()
	folder := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Config: server(t, "shop", "plain", folder, `deny = ["flood"]`) +
		"[mcp.broken]\ncommand = \"/nowhere/at-all\"\n"})
	for _, tt := range []struct {
		args   []string
		status int
		says   []string // on standard output, or on standard error where it fails
	}{
		{[]string{"mcp", "list"}, 0, []string{"SERVER", "shop", "ready", "pay", "broken", "failed", "no such file"}},
		{[]string{"mcp", "probe", "shop"}, 0, []string{"tester 1, protocol 2026", "shop_look", "nothing", "not allowed"}},
		{[]string{"mcp", "probe", "shops"}, 1, []string{`"shops"`, "allowed: broken, shop"}},
		{[]string{"mcp", "probe", "broken"}, 1, []string{"broken can't be reached", "no such file"}},
		{[]string{"mcp", "probe"}, 1, []string{"found 0 arguments, allowed: gateway mcp probe SERVER"}},
		{[]string{"mcp", "call", "shop", "look", `{"id": "a"}`}, 0, []string{"did look"}},
		{[]string{"mcp", "call", "shop", "shop_look"}, 0, []string{"did look"}},
		{[]string{"mcp", "call", "shop", "look", `{"id": `}, 1, []string{"arguments that are no JSON", `such as {"path": "notes"}`}},
		{[]string{"mcp", "call", "shop", "buy"}, 1, []string{`the tool "buy"`, "allowed: ", "look"}},
		{[]string{"mcp", "call", "shop", "flood"}, 1, []string{`the tool "flood"`, "allowed: "}},
		{[]string{"mcp", "call", "shop", "fail"}, 1, []string{"the shop is closed"}},
		{[]string{"mcp", "call", "shop", "crash"}, 1, []string{"ended while this ran", "whether it was done is not known"}},
		{[]string{"mcp", "call", "shop", "choose"}, 1, []string{"wants to ask the user, which it can't do here", "Which colour?"}},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			p := g.Run(nil, tt.args...)
			p.MustExit(tt.status)
			said := p.Stdout.String()
			if tt.status != 0 {
				if said != "" {
					t.Errorf("standard output has %q", said)
				}
				said = p.Stderr.String()
			}
			for _, want := range tt.says {
				if !strings.Contains(said, want) {
					t.Errorf("it lacks %q: %s", want, said)
				}
			}
			if left := mcptest.Alive(folder); len(left) > 0 {
				t.Errorf("the processes %v are left", left)
			}
		})
	}
}

// "gateway mcp serve" connects a program with the running gateway through standard input and output.
func TestServeCommandOffersTheGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it runs the binary")
	}
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{})
	command := exec.Command(gatewaytest.Binary(t), "mcp", "serve", "-c", g.Config)
	command.Env = g.Environ()
	client := sdk.NewClient(&sdk.Implementation{Name: "editor", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(tool string, arguments map[string]any) string {
		t.Helper()
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(result.IsError, " ", result.Content[0].(*sdk.TextContent).Text)
	}
	if got := call("send_message", map[string]any{"session": "api:editor", "text": "hello"}); !strings.HasPrefix(got, "false") || !strings.Contains(got, "echo: hello") {
		t.Errorf("the answer to a message: %s", got)
	}
	if got := call("list_sessions", nil); !strings.Contains(got, "api:editor") {
		t.Errorf("the sessions: %s", got)
	}
	if err := session.Close(); err != nil {
		t.Errorf("the end of the command: %v", err)
	}
}

// With a configuration that can't be read, the command fails and says why.
func TestServeCommandReportsABadConfiguration(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it runs the binary")
	}
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Config: "[nonsense]\nkey = 1\n"})
	p := g.Run(nil, "mcp", "serve")
	p.MustExit(1)
	if !strings.Contains(p.Stderr.String(), "nonsense") {
		t.Errorf("it says %s", p.Stderr)
	}
}
