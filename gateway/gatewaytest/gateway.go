// Package gatewaytest runs a whole gateway for tests: as the built binary, which can
// be killed, or in the test's own process. The database is real, and the model and
// the platforms are the fakes of llmtest, telegramtest and discordtest.
//
// Start returns when the gateway takes messages, so no test waits for that.
package gatewaytest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"parley/config"
	"parley/conversation"
	"parley/conversation/storetest"
	"parley/gateway"
	"parley/internal/lifesign"
	"parley/internal/waittest"
	"parley/llm/llmtest"
	"parley/tools"
)

// OpenToAll is a configuration in which HTTP needs no token.
const OpenToAll = "[http]\nauth = \"none\"\n"

// Options describes the gateway that a test needs. The zero value is the binary with a folder of
// its own, which serves HTTP only.
type Options struct {
	Dir      string // of the configuration and the database; "" = one of the test's own
	Database string // its path; "" = conversations.db in Dir
	Config   string // TOML, whose keys override those of all tests' gateways

	InProcess bool
	Tools     []tools.Tool // that the model may call too; in process only
	Terminal  *os.File     // in which a chat opens; in process only

	ToolsTimeout time.Duration // see gateway.Options; in process only
}

// Gateway is a gateway with everything that stays when its process ends.
type Gateway struct {
	Model    *llmtest.Server
	Dir      string
	Config   string // path of the configuration file
	Database string
	URL      string   // where the gateway serves HTTP, without a slash at its end; "" before the first Start
	Log      *Log     // what all its processes have written to standard error
	Env      []string // environment of its processes, beside PATH and HOME

	t            testing.TB
	address      string // where each start serves HTTP if the test's configuration does not set it: pages look for it there
	tools        []tools.Tool
	toolsTimeout time.Duration
	chat         *gateway.Terminal   // nil: none
	ended        chan struct{}       // closed when the daemon in this process has ended
	process      *Process            // the daemon that Start has started
	store        *conversation.Store // the open database of the daemon in this process
	here         func()              // ends the daemon in this process, nil: none runs
	inside       bool                // Start runs the daemon in this process
}

// New writes the configuration of a gateway, and starts nothing. When the test ends, running
// processes are killed, and the log must show no crash and no data race. With -short, tests of
// the binary are skipped.
func New(t testing.TB, o Options) *Gateway {
	t.Helper()
	if testing.Short() && !o.InProcess {
		t.Skip("skipped with -short: it runs the built gateway")
	}
	g := &Gateway{Model: llmtest.New(t), Dir: o.Dir, Database: o.Database, Log: &Log{}, t: t, tools: o.Tools, toolsTimeout: o.ToolsTimeout, inside: o.InProcess}
	if g.Dir == "" {
		g.Dir = t.TempDir()
	}
	if o.Terminal != nil {
		g.chat = &gateway.Terminal{In: o.Terminal, Out: o.Terminal, Folder: g.Dir}
	}
	if g.Database == "" {
		g.Database = filepath.Join(g.Dir, "conversations.db")
	}
	g.Config = filepath.Join(g.Dir, "config.toml")
	g.address = Address(t)
	g.Configure(o.Config)
	t.Cleanup(g.inspect)
	return g
}

// Start starts a gateway as New and Gateway.Start do.
func Start(t testing.TB, o Options) *Gateway {
	t.Helper()
	g := New(t, o)
	g.Start()
	return g
}

// Configure replaces the configuration for the next start. The keys in config, which is TOML,
// override those of all tests' gateways.
func (g *Gateway) Configure(config string) {
	g.t.Helper()
	all := map[string]any{
		"database": g.Database,
		"llm":      map[string]any{"base_url": g.Model.URL(), "api_key": "key", "model": "test-model", "vision": true},
		"agent":    map[string]any{"titles": false}, // they are calls of the model that most tests do not count
		"http":     map[string]any{"listen": g.address},
	}
	var more map[string]any
	if err := toml.Unmarshal([]byte(config), &more); err != nil {
		g.t.Fatalf("%v in the configuration:\n%s", err, config)
	}
	merge(all, more)
	g.write(all)
}

func merge(into, from map[string]any) {
	for key, value := range from {
		of, ok := into[key].(map[string]any)
		section, is := value.(map[string]any)
		if ok && is {
			merge(of, section)
		} else {
			into[key] = value
		}
	}
}

func (g *Gateway) write(config map[string]any) {
	g.t.Helper()
	text, err := toml.Marshal(config)
	if err == nil {
		err = os.WriteFile(g.Config, text, 0o600)
	}
	g.must(err)
}

// Start starts the gateway and returns when it takes messages.
func (g *Gateway) Start() {
	g.t.Helper()
	if _, err := os.Stat(g.Database); errors.Is(err, fs.ErrNotExist) {
		storetest.Make(g.t, g.Database) // sooner than the gateway makes it
	}
	before := len(g.Log.String())
	if g.inside {
		g.startHere()
	} else {
		g.process = g.Run(nil, "run")
	}
	Await(g.t, "the gateway to take messages", func() bool {
		if g.process != nil && g.process.HasEnded() {
			g.t.Fatalf("the gateway ended at its start:\n%s", g.Log)
		}
		return g.takesMessages() && strings.Contains(g.Log.String()[before:], "gateway started") // the log arrives by a pipe
	})
	if at := served.FindStringSubmatch(g.Log.String()[before:]); at != nil {
		g.URL = at[1]
	}
}

// served matches the address in the log line "gateway started".
var served = regexp.MustCompile(`"?http"?[=:]"?(http://[^"\s]+?)/?["\s]`)

// takesMessages asks the daemon that Start has started.
func (g *Gateway) takesMessages() bool {
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Patience)
	defer cancel()
	answers, err := lifesign.Ask(ctx, g.Database, 0)
	g.must(err)
	pid := os.Getpid()
	if g.process != nil {
		pid = g.process.PID()
	}
	for _, a := range answers {
		is := struct{ Starting bool }{true}
		if a.PID == pid && a.Err == nil {
			is.Starting = false // as it is when the answer does not say it
			g.must(json.Unmarshal(a.Body, &is))
		}
		if !is.Starting {
			return true
		}
	}
	return false
}

// startHere starts the gateway in this process.
func (g *Gateway) startHere() {
	g.t.Helper()
	var err error
	g.store, err = conversation.Open(context.Background(), gateway.StoreConfig(config.Default(), g.Database))
	g.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	daemon, err := gateway.New(ctx, gateway.Options{
		ConfigPath: g.Config, Version: "test", Daemon: true, Terminal: g.chat, Getenv: g.getenv, LogTo: g.Log, Store: g.store, Tools: g.tools, ToolsTimeout: g.toolsTimeout,
	})
	g.must(err)
	ended := make(chan struct{})
	g.ended = ended
	var failed error
	go func() {
		defer close(ended)
		failed = daemon.Run(ctx)
	}()
	g.here = func() {
		g.here = nil
		cancel()
		select {
		case <-ended:
		case <-time.After(2 * waittest.Patience):
			_ = pprof.Lookup("goroutine").WriteTo(g.Log, 2)
			g.t.Fatal("the gateway does not end")
		}
		if failed != nil {
			g.t.Errorf("the gateway ended with %v", failed)
		}
		daemon.Close()
	}
}

// Chat runs a chat in the test's process, as `gateway chat` and `gateway ask` do, and
// returns how it ends.
func (g *Gateway) Chat(ctx context.Context, terminal gateway.Terminal) error {
	g.t.Helper()
	chat, err := gateway.New(ctx, gateway.Options{ConfigPath: g.Config, Version: "test", Terminal: &terminal, Getenv: g.getenv, LogTo: g.Log})
	if err != nil {
		return err
	}
	defer chat.Close()
	return chat.Run(ctx)
}

// Run runs a subcommand of the binary on the gateway's configuration, which is
// killed when the test ends. With stdin nil its standard input is /dev/null.
func (g *Gateway) Run(stdin io.Reader, args ...string) *Process {
	g.t.Helper()
	return g.RunBinary(Binary(g.t), stdin, args...)
}

// getenv reads a variable of the gateway in this process: HOME, or one of Env.
func (g *Gateway) getenv(name string) string {
	for _, variable := range slices.Backward(append([]string{"HOME=" + g.Dir}, g.Env...)) {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value
		}
	}
	return ""
}

// HasEnded reports whether the started gateway has ended by itself.
func (g *Gateway) HasEnded() bool {
	if !g.inside {
		return g.process.HasEnded()
	}
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

// Stop shuts the started gateway down.
func (g *Gateway) Stop() {
	g.t.Helper()
	if g.inside {
		g.here()
		return
	}
	g.process.Stop()
}

// Kill kills the started gateway with SIGKILL.
func (g *Gateway) Kill() {
	g.t.Helper()
	if g.inside {
		g.t.Fatal("a gateway in the test's process can't be killed")
	}
	g.process.Kill()
}

// Process returns the started process, nil for a gateway in the test's process.
func (g *Gateway) Process() *Process { return g.process }

// Store returns the gateway's own store if it runs in this process, and otherwise opens its
// database until the test ends.
func (g *Gateway) Store() *conversation.Store {
	g.t.Helper()
	if g.here != nil {
		return g.store
	}
	return storetest.Open(g.t, g.Database)
}

// inspect checks the log at the end of the test.
func (g *Gateway) inspect() {
	if g.here != nil {
		g.here()
	}
	log := g.Log.String()
	for _, crash := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(log, crash) {
			g.t.Errorf("the log shows %q", crash)
		}
	}
	if g.t.Failed() {
		g.t.Logf("end of the log:\n%s", tail(log, 6000))
	}
}

func (g *Gateway) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// Await waits until happened returns true, and fails the test after waittest.Patience. It calls happened
// less and less often, since that may query a database, and tests run in parallel.
func Await(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for began := time.Now(); !happened(); {
		waited := time.Since(began)
		if waited > waittest.Patience {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(min(max(waited/10, 5*time.Millisecond), 50*time.Millisecond))
	}
}
