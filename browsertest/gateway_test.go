package browsertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"parley/llm"
	"parley/llm/llmtest"
)

// patience bounds how long a test waits for what must happen. It is far from
// what anything takes, and no test asserts on it.
const patience = 60 * time.Second

// gateway is the binary at work, with a model that says what a test wants.
type gateway struct {
	t     *testing.T
	model *llmtest.Server
	dir   string
	more  string // sections of its configuration; the first may begin with keys of [http]
	url   string // without a slash at its end
	cmd   *exec.Cmd
}

// startGateway runs a gateway with an empty database until the test ends.
func startGateway(t *testing.T, answer func(llmtest.Call) llmtest.Answer) *gateway {
	t.Helper()
	if chrome == nil {
		t.Skip(skipped)
	}
	return startGatewayIn(t, t.TempDir(), openToAll, answer)
}

// openToAll is the configuration of a gateway that asks nobody to sign in.
const openToAll = "auth = \"none\"\n"

// startGatewayIn runs a gateway with the database of a folder, and with more
// configuration, until the test ends.
func startGatewayIn(t *testing.T, dir, more string, answer func(llmtest.Call) llmtest.Answer) *gateway {
	t.Helper()
	g := &gateway{t: t, model: llmtest.New(t), dir: dir, more: more}
	g.model.Reply(answer)
	g.start()
	t.Cleanup(g.kill)
	return g
}

func (g *gateway) start() {
	g.t.Helper()
	listen := "127.0.0.1:0"
	if g.url != "" {
		listen = g.url[len("http://"):] // where the pages look for it after a restart
	}
	config := fmt.Sprintf(`
database = %q
[log]
format = "json"
[llm]
base_url = %q
api_key = "key"
model = "fake"
vision = true
[agent]
titles = false
[http]
listen = %q
%s
`, filepath.Join(g.dir, "conversations.db"), g.model.URL(), listen, g.more)
	settings := filepath.Join(g.dir, "config.toml")
	if err := os.WriteFile(settings, []byte(config), 0o600); err != nil {
		g.t.Fatal(err)
	}
	path, err := binary()
	if err != nil {
		g.t.Fatal(err)
	}
	g.cmd = exec.Command(path, "run", "-c", settings)
	g.cmd.Dir = g.dir
	g.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir}
	stderr, err := g.cmd.StderrPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.url = g.address(stderr)
}

// address reads where the gateway serves from its first lines, and goes on to
// read so that it never waits for the test.
func (g *gateway) address(stderr io.Reader) string {
	g.t.Helper()
	said := ""
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		said += lines.Text() + "\n"
		var line struct{ HTTP string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.HTTP != "" {
			go io.Copy(io.Discard, stderr)
			return line.HTTP[:len(line.HTTP)-1]
		}
	}
	g.t.Fatalf("the gateway did not start: %s", said)
	return ""
}

// kill is kill -9.
func (g *gateway) kill() {
	_ = g.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	_ = g.cmd.Wait()
}

// says answers every call with a text.
func says(text string) func(llmtest.Call) llmtest.Answer {
	return func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: text} }
}

// echo answers with what was said.
func echo(c llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "To: " + c.LastUser()} }

// slowly answers with a text that comes word by word.
func slowly(text string, pieces int, pause time.Duration) llmtest.Answer {
	return llmtest.Answer{Text: text, Pieces: pieces, ChunkDelay: pause}
}

// using answers the first call with a call of a tool, and the next with a text.
func using(tool, arguments, text string) func(llmtest.Call) llmtest.Answer {
	return func(c llmtest.Call) llmtest.Answer {
		if last := c.Messages[len(c.Messages)-1]; last.Role == "tool" {
			return llmtest.Answer{Text: text}
		}
		return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call-1", Name: tool, Arguments: arguments}}}
	}
}
