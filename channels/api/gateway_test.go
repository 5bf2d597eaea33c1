package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/conversation"
	"parley/llm/llmtest"
)

// The tests of this package speak HTTP with the real gateway, which asks a
// model server that the test holds in its hands.

// binary is the gateway, built once by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "parley-apitest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "gateway")
	args := []string{"build", "-tags=sqlite_fts5", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./cmd/gateway")...)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the gateway: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// patience bounds how long a test waits for what must happen. It is far from
// what anything takes, and no test asserts on it.
const patience = 60 * time.Second

// gateway is a gateway with a folder and a model of its own.
type gateway struct {
	t      *testing.T
	model  *llmtest.Server
	dir    string
	url    string // without a slash at its end
	config string

	process *exec.Cmd
	log     *record
}

// token is what programs send when a test asks for one.
const token = "a-token-of-the-api-tests"

// start starts a gateway that asks for no token. The sections are further ones
// of its configuration.
func start(t *testing.T, sections ...string) *gateway {
	t.Helper()
	return startHTTP(t, `auth = "none"`, sections...)
}

// startHTTP is start with keys of the section [http].
func startHTTP(t *testing.T, keys string, sections ...string) *gateway {
	t.Helper()
	g := &gateway{t: t, model: llmtest.New(t), dir: t.TempDir(), log: &record{}}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now, for one gateway after the other
	g.must(err)
	g.must(l.Close())
	g.url = "http://" + l.Addr().String()
	g.config = filepath.Join(g.dir, "config.toml")
	text := fmt.Sprintf("database = %q\n[llm]\nbase_url = %q\napi_key = \"key\"\nmodel = \"test-model\"\nvision = true\n[agent]\ntitles = false\n[http]\nlisten = %q\n%s\n%s\n",
		g.database(), g.model.URL(), l.Addr(), keys, strings.Join(sections, "\n"))
	g.must(os.WriteFile(g.config, []byte(text), 0o600))
	g.run()
	t.Cleanup(g.end)
	return g
}

func (g *gateway) database() string { return filepath.Join(g.dir, "conversations.db") }

// run starts the gateway, and waits until its channels take messages: the web
// chat says when it does, and the API does no later.
func (g *gateway) run() {
	g.t.Helper()
	g.process = exec.Command(binary, "run", "-c", g.config)
	g.process.Stdout, g.process.Stderr = g.log, g.log
	g.process.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "GORACE=atexit_sleep_ms=10"}
	g.must(g.process.Start())
	g.until("the gateway serves", func() bool {
		ask, err := http.NewRequest("GET", g.url+"/readyz", nil)
		g.must(err)
		ask.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(ask)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		tellsParts := strings.Contains(string(text), `"parts"`) // to who has the token
		return err == nil && (!tellsParts || strings.Contains(string(text), `"web":{"state":"serving"`))
	})
}

// kill is kill -9.
func (g *gateway) kill() {
	_ = g.process.Process.Kill() // it may have ended
	_ = g.process.Wait()
}

// stop ends the gateway in order, and expects that.
func (g *gateway) stop() {
	g.t.Helper()
	g.askToEnd()
	g.must(g.process.Wait())
}

func (g *gateway) askToEnd() {
	g.t.Helper()
	g.must(g.process.Process.Signal(syscall.SIGTERM))
}

func (g *gateway) end() {
	if g.process.ProcessState == nil {
		g.kill()
	}
	log := g.log.String()
	for _, crash := range []string{"DATA RACE", "panic:", "fatal error:", "a request of the API failed", "a request failed"} {
		if strings.Contains(log, crash) {
			g.t.Errorf("the log shows %q", crash)
		}
	}
	if g.t.Failed() {
		g.t.Logf("the gateway said:\n%s", log)
	}
}

// store opens the gateway's database beside it.
func (g *gateway) store() *conversation.Store {
	g.t.Helper()
	store, err := conversation.Open(g.t.Context(), g.database())
	g.must(err)
	g.t.Cleanup(func() { store.Close() })
	return store
}

func (g *gateway) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) until(what string, done func() bool) {
	g.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// object is a JSON object.
type object = map[string]any

// reply is what a request was answered.
type reply struct {
	status int
	header http.Header
	text   string
	object object // of JSON
}

// header is "Name: value".
func (g *gateway) request(method, path, body string, headers ...string) *http.Request {
	g.t.Helper()
	request, err := http.NewRequestWithContext(g.t.Context(), method, g.url+path, strings.NewReader(body))
	g.must(err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	return request
}

func (g *gateway) do(method, path, body string, headers ...string) reply {
	g.t.Helper()
	answer, err := http.DefaultClient.Do(g.request(method, path, body, headers...))
	g.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	g.must(err)
	r := reply{status: answer.StatusCode, header: answer.Header, text: string(text)}
	if strings.Contains(answer.Header.Get("Content-Type"), "json") {
		_ = json.Unmarshal(text, &r.object) // of lines of JSON it stays empty
	}
	return r
}

// ask says something in a session, and gives the answer.
func (g *gateway) ask(key, text string, headers ...string) reply {
	g.t.Helper()
	return g.post(key, object{"text": text}, headers...)
}

func (g *gateway) post(key string, body object, headers ...string) reply {
	g.t.Helper()
	text, err := json.Marshal(body)
	g.must(err)
	return g.do("POST", "/api/v1/sessions/"+key+"/messages", string(text), headers...)
}

func (g *gateway) get(path string) object {
	g.t.Helper()
	r := g.do("GET", "/api/v1"+path, "")
	if r.status != http.StatusOK {
		g.t.Fatalf("GET %s: %d %s", path, r.status, r.text)
	}
	return r.object
}

// contents are the messages of a list, as "role: content".
func contents(list object) (all []string) {
	for _, m := range list["messages"].([]any) {
		all = append(all, fmt.Sprint(m.(object)["role"], ": ", m.(object)["content"]))
	}
	return all
}

// record is what a process wrote so far.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
