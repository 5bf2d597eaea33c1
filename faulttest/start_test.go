package faulttest

import (
	"encoding/json"
	"fmt"
	"go/build"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
)

func TestPipedChatEndsWithItsInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.run(strings.NewReader("hello\n/history\n"), "chat", "--lines")
	p.MustExit(0)
	out := p.Stdout.String()
	if n := strings.Count(out, "re hello"); n != 2 {
		t.Errorf("the output has the answer %d times, want it once as the answer and once in the history:\n%s", n, out)
	}
}

// TestSessionInUse opens a session that another chat has open, and one of its own beside the daemon.
func TestSessionInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	daemon := w.startServing()
	input, typed := io.Pipe()
	first := w.run(input, "chat", "--lines", "--session", "x")
	fmt.Fprintln(typed, "one")
	gatewaytest.Await(w.t, "the answer in the terminal", func() bool { return strings.Contains(first.Stdout.String(), "re one") })

	second := w.run(strings.NewReader("two\n"), "chat", "--session", "x")
	second.MustExit(1)
	if who := fmt.Sprintf("process %d", first.PID()); !strings.Contains(second.Stderr.String(), who) {
		t.Errorf("the refusal does not name %s: %s", who, second.Stderr)
	}
	if strings.Contains(second.Stdout.String(), "re two") {
		t.Error("the refused chat was answered")
	}

	other := w.run(strings.NewReader("three\n"), "chat", "--session", "y")
	other.MustExit(0)
	w.say(1, "m1")
	w.awaitAnswer(1, "m1")
	w.must(typed.Close())
	first.MustExit(0)

	again := w.run(strings.NewReader("four\n"), "chat", "--session", "x")
	again.MustExit(0)
	if !strings.Contains(again.Stdout.String(), "re four") {
		t.Errorf("the session is not free after its chat ended: %s", again.Stderr)
	}
	daemon.Stop()
	w.expectClean()
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.startServing().Stop()
	db := openSQLite(t, w.gw.Database)
	_, err := db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`)
	w.must(err)
	w.must(db.Close())
	p := w.start()
	p.MustExit(1)
	for _, word := range []string{w.gw.Database, "9999", "newer gateway"} {
		if !strings.Contains(p.Stderr.String(), word) {
			t.Errorf("the refusal does not name %q: %s", word, p.Stderr)
		}
	}
}

// TestBuildWithoutFullTextSearch starts a gateway that was built without the tag. A real build without
// it would compile SQLite once more, so this one has the tag, and an overlay exchanges the file that
// checks for it.
func TestBuildWithoutFullTextSearch(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it builds the gateway once more")
	}
	t.Parallel()
	w := newWorld(t, settings{})
	untagged := filepath.Join(t.TempDir(), "gateway")
	w.must(gatewaytest.Build(untagged, "-overlay="+withoutTheTag(w)))
	p := w.gw.RunBinary(untagged, nil, "run")
	p.MustExit(1)
	said := strings.TrimSpace(p.Stderr.String())
	if strings.Contains(said, "\n") || !strings.Contains(said, "make build") {
		t.Errorf("want one line that tells how to build, got:\n%s", said)
	}
}

// withoutTheTag writes a build overlay that replaces the file for builds with the tag by the one for
// builds without it, and returns its path.
func withoutTheTag(w *world) (path string) {
	w.t.Helper()
	folder, err := filepath.Abs("../conversation/internal/db")
	w.must(err)
	with, without := filepath.Join(folder, "sqlite_fts5_on.go"), filepath.Join(folder, "sqlite_fts5_off.go")
	for file, untagged := range map[string]bool{with: false, without: true} {
		compiled, err := (&build.Context{GOOS: runtime.GOOS, GOARCH: runtime.GOARCH, Compiler: runtime.Compiler}).MatchFile(filepath.Split(file))
		if w.must(err); compiled != untagged {
			w.t.Fatalf("whether %s is compiled without the tag: %t, want %t", file, compiled, untagged)
		}
	}
	text, err := os.ReadFile(without)
	w.must(err)
	_, code, _ := strings.Cut(string(text), "\n") // the first line says that it is compiled without the tag
	stand := filepath.Join(w.t.TempDir(), "fts5.go")
	w.must(os.WriteFile(stand, []byte(code), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {with: stand}})
	w.must(err)
	path = filepath.Join(w.t.TempDir(), "overlay.json")
	w.must(os.WriteFile(path, overlay, 0o600))
	return path
}

// TestFailedConnectionsLogNoSecrets makes every connection fail in turn. The end of every test searches
// the log for secrets.
func TestFailedConnectionsLogNoSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.startServing()
	w.model.RequireKey("another")
	w.telegram.Fail("sendMessage", telegramtest.Drop(), 1)
	w.say(1, "m1")
	gatewaytest.Await(w.t, "the notice that the message waits", func() bool { return len(w.platform.sent(1)) == 1 })
	if got := w.platform.sent(1)[0]; !strings.Contains(got, "I will answer when it is back") {
		t.Errorf("the notice does not say that the message waits: %q", got)
	}
	w.model.Close()
	w.awaitLog("model's server at")
	w.telegram.Close()
	w.awaitLog("Telegram can't be reached")
	p.Stop()
	w.refusals = len(w.model.Refusals()) // the key was tried until the server was gone
}
