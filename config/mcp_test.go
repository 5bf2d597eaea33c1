package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// All problems of tool servers are reported at once, each with its line.
func TestProblemsOfServersOfToolsNameTheirLines(t *testing.T) {
	_, err := loadText(t, `[mcp.both]
command = "npx"
url = "https://tools.example/mcp"
[mcp.neither]
timeout = "5s"
[mcp."two words"]
command = "x"
[mcp.values]
command = "x"
timeout = "soon"
max_output = 0
denny = ["b"]
[mcp.values.tools.pay]
kay = true
[mcp.variables]
command = "x"
headers = {A = "b"}
[mcp.variables.env]
"A=B" = "x"
[mcp.secrets]
url = "https://tools.example/mcp"
env = {TOKEN = "x"}
args = ["x"]
[mcp.secrets.headers]
"Bad Header" = "x"
[mcp.files.env]
TOKEN_file = "/nowhere.txt"
[mcp.twice]
url = "https://tools.example/mcp"
[mcp.twice.headers]
Authorization = "x"
Authorization_file = "y"
`)
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%d %s: %s", p.Line, p.Key, p.Found))
	}
	want := []string{
		`3 mcp.both.url: both a command and a url`,
		`4 mcp.neither.command: neither a command nor a url`,
		`6 mcp."two words": the name "two words"`,
		`10 mcp.values.timeout: "soon" (string)`,
		`11 mcp.values.max_output: 0 (integer)`,
		`12 mcp.values.denny: an unknown key (did you mean mcp.values.deny?)`,
		`14 mcp.values.tools.pay.kay: an unknown key (did you mean mcp.values.tools.pay.key?)`,
		`17 mcp.variables.headers: headers without a url`,
		`18 mcp.variables.env: a name with = in it, or an empty one`,
		`22 mcp.secrets.env: an environment without a command`,
		`23 mcp.secrets.args: arguments without a command`,
		`24 mcp.secrets.headers: a header that HTTP does not allow`,
		`27 mcp.files.env.TOKEN_file: /nowhere.txt, which does not exist`,
		`32 mcp.twice.headers.Authorization_file: both Authorization (line 31) and Authorization_file`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Secrets of tool servers may come from files, and are not shown.
func TestSecretsOfServersOfToolsComeFromFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token.txt"), "a-secret\n")
	write(t, filepath.Join(dir, DefaultPath), `[mcp.files]
command = "npx"
args = ["-y", "server"]
timeout = "5s"
[mcp.files.env]
API_TOKEN_file = "token.txt"
REGION = "eu"
[mcp.tracker]
url = "https://tools.example/mcp"
headers = {Authorization_file = "token.txt"}
`)
	c, err := Load(filepath.Join(dir, DefaultPath), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	files, tracker := c.MCP["files"], c.MCP["tracker"]
	if diff := cmp.Diff(map[string]string{"API_TOKEN": "a-secret", "REGION": "eu"}, files.Env); diff != "" {
		t.Error(diff)
	}
	if tracker.Headers["Authorization"] != "a-secret" || files.Timeout != 5*time.Second || files.MaxOutput != 256 {
		t.Errorf("got %+v and %+v", files.Timeout, tracker.MaxOutput)
	}
	if text := fmt.Sprint(c) + fmt.Sprintf("%#v", c); strings.Contains(text, "a-secret") {
		t.Errorf("the configuration shows a secret: %s", text)
	}
	for _, s := range c.Settings(Origins{}) {
		if strings.Contains(fmt.Sprint(s), "a-secret") {
			t.Errorf("the console would show %+v", s)
		}
	}
}
