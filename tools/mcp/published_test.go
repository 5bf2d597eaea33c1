package mcp

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// unreachable matches what npm says without a network.
var unreachable = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ERR_SOCKET_TIMEOUT|socket hang up|E50[0234]\b`)

// Servers that others have written, and the conformance suite of the protocol, at the
// versions of testdata/npm.
func TestPublishedServers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: it takes servers from npm")
	}
	installed := install(t)
	t.Run("everything", func(t *testing.T) {
		t.Parallel()
		h := published(t, installed, "everything").await()
		h.expect("shop_echo", `{"message":"hello"}`, "Echo: hello")
		h.expect("shop_get-sum", `{"a":19,"b":23}`, "42")
		h.expect("shop_get-structured-content", `{"location":"Chicago"}`, `"temperature"`)
		h.expect("shop_list_resources", "{}", "demo://resource/static/document/architecture.md")
		h.expect("shop_read_resource", `{"uri":"demo://resource/static/document/architecture.md"}`, "# Everything Server")
		h.expect("shop_list_prompts", "{}", "args-prompt")
		h.expect("shop_get_prompt", `{"name":"args-prompt","arguments":{"city":"Chicago"}}`, "Chicago")
		h.expect("shop_trigger-long-running-operation", `{"duration":1,"steps":4}`, "completed")
		result, err := h.registry.Call(t.Context(), "shop_get-tiny-image", "{}", time.Minute)
		if err != nil || len(result.Pictures) != 1 || !strings.Contains(result.Text, "[picture "+result.Pictures[0].Name) {
			t.Errorf("%d pictures, %q, %v", len(result.Pictures), result.Text, err)
		}
		h.refused("shop_get-sum", `{"a":"one"}`)
	})
	t.Run("filesystem", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		h := published(t, installed, "filesystem", folder).await()
		path := filepath.Join(folder, "note.txt")
		h.expect("shop_write_file", `{"path":"`+path+`","content":"four candles"}`, "Successfully wrote")
		h.expect("shop_read_text_file", `{"path":"`+path+`"}`, "four candles")
		h.expect("shop_list_directory", `{"path":"`+folder+`"}`, "note.txt")
		h.refused("shop_read_text_file", `{"path":"/etc/passwd"}`)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "memory.json")
		open := func() *harness {
			h := published(t, installed, "memory")
			h.list[0].config.Env = map[string]string{"MEMORY_FILE_PATH": file}
			return h.await()
		}
		first := open()
		first.expect("shop_create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["likes engines"]}]}`, "Ada")
		first.Close()
		open().expect("shop_search_nodes", `{"query":"engines"}`, "Ada")
	})
	for _, scenario := range []string{"initialize", "tools_call", "sse-retry"} {
		t.Run("conformance "+scenario, func(t *testing.T) {
			t.Parallel()
			runConformanceScenario(t, installed, scenario)
		})
	}
}

// install takes the servers and the suite from npm, into a folder of the test.
func install(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("servers from npm are not tested: there is no %s here", program)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/npm")); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	command.Dir = dir
	if said, err := command.CombinedOutput(); unreachable.Match(said) {
		t.Skip("servers from npm are not tested: npm's registry can't be reached")
	} else if err != nil {
		t.Fatalf("npm ci: %v\n%s", err, said)
	}
	return filepath.Join(dir, "node_modules", "@modelcontextprotocol")
}

// published runs a server from npm.
func published(t *testing.T, installed, name string, args ...string) *harness {
	t.Helper()
	return serve(t, "", func(c *Config, o *Options) {
		c.Command = "node"
		c.Args = append([]string{filepath.Join(installed, "server-"+name, "dist", "index.js")}, args...)
		o.StartTimeout = 90 * time.Second
	})
}

// expect calls a tool whose result must hold a text.
func (h *harness) expect(tool, arguments, want string) {
	h.t.Helper()
	if text, err := h.call(tool, arguments); err != nil || !strings.Contains(text, want) {
		h.t.Errorf("%s %s: %q, %v; want %q", tool, arguments, text, err, want)
	}
}

// refused calls a tool that must fail in words.
func (h *harness) refused(tool, arguments string) {
	h.t.Helper()
	if text, err := h.call(tool, arguments); err == nil || len(text) < len("error: x") {
		h.t.Errorf("%s %s is not refused: %q", tool, arguments, text)
	}
}

// conformanceClient is the first argument with which the suite runs this binary; behind it
// comes the address of the suite's server.
const conformanceClient = "client-of-the-conformance-suite"

// runConformanceClient calls each tool of the suite's server, if the suite has started this
// binary, and ends then.
func runConformanceClient() {
	if len(os.Args) != 3 || os.Args[1] != conformanceClient {
		return
	}
	var c Config
	c.SetDefaults()
	c.URL = os.Args[2]
	servers := New(map[string]Config{"suite": c}, Options{Version: "test"})
	found, err := servers.Probe(context.Background(), "suite")
	for _, tool := range found.Tools {
		if err == nil {
			_, err = servers.Call(context.Background(), "suite", tool.Tool, `{"a": 2, "b": 3}`)
		}
	}
	servers.Close()
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// runConformanceScenario runs a scenario of the conformance suite against the client. It ignores failures that
// are about time, since a busy machine is slower.
func runConformanceScenario(t *testing.T, installed, scenario string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	results := t.TempDir()
	suite := exec.CommandContext(t.Context(), "node", filepath.Join(installed, "conformance", "dist", "index.js"), "client",
		"--command", self+" "+conformanceClient, "--scenario", scenario, "--output-dir", results, "--timeout", "60000")
	said, _ := suite.CombinedOutput() // how it went is read below
	paths, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("the suite left %d results: %v\n%s", len(paths), err, said)
	}
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct{ ID, Description, Status, ErrorMessage string }
	if err := json.Unmarshal(text, &checks); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, check := range checks {
		switch {
		case check.ID == "client-sse-retry-timing":
		case check.Status == "SUCCESS":
			passed++
		case check.Status == "FAILURE", check.Status == "WARNING":
			t.Errorf("%s: %s", check.Description, check.ErrorMessage)
		}
	}
	if passed == 0 {
		t.Errorf("the suite checked nothing:\n%s", said)
	}
}
