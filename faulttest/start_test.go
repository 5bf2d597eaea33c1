package faulttest

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"parley/channels/telegram/telegramtest"
)

func TestPipedChatEndsWithItsInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.run(binary, strings.NewReader("hello\n/history\n"), "chat")
	p.expectExit(0)
	out := p.stdout.String()
	if n := strings.Count(out, "re hello"); n != 2 {
		t.Errorf("the answer stands %d times in the output, want it once as the answer and once in the history:\n%s", n, out)
	}
}

// TestSessionInUse opens one session twice, and another one beside the daemon.
func TestSessionInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	daemon := w.startServing()
	input, typed := io.Pipe()
	first := w.run(binary, input, "chat", "--session", "x")
	fmt.Fprintln(typed, "one")
	w.await("the answer in the terminal", func() bool { return strings.Contains(first.stdout.String(), "re one") })

	second := w.run(binary, strings.NewReader("two\n"), "chat", "--session", "x")
	second.expectExit(1)
	if who := fmt.Sprintf("process %d", first.cmd.Process.Pid); !strings.Contains(second.stderr.String(), who) {
		t.Errorf("the refusal does not name %s: %s", who, second.stderr)
	}
	if strings.Contains(second.stdout.String(), "re two") {
		t.Error("the refused chat was answered")
	}

	other := w.run(binary, strings.NewReader("three\n"), "chat", "--session", "y")
	other.expectExit(0)
	w.say(1, "m1")
	w.awaitAnswer(1, "m1")
	w.must(typed.Close())
	first.expectExit(0)

	again := w.run(binary, strings.NewReader("four\n"), "chat", "--session", "x")
	again.expectExit(0)
	if !strings.Contains(again.stdout.String(), "re four") {
		t.Errorf("the session is not free after its chat ended: %s", again.stderr)
	}
	daemon.stop()
	w.expectClean()
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	w.startServing().stop()
	db := openSQLite(t, w.database)
	_, err := db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`)
	w.must(err)
	w.must(db.Close())
	p := w.start()
	p.expectExit(1)
	for _, word := range []string{w.database, "9999", "newer gateway"} {
		if !strings.Contains(p.stderr.String(), word) {
			t.Errorf("the refusal does not name %q: %s", word, p.stderr)
		}
	}
}

// TestBuildWithoutFullTextSearch builds the gateway as somebody would who does
// not know of the tag.
func TestBuildWithoutFullTextSearch(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped with -short: it compiles SQLite once more")
	}
	t.Parallel()
	w := newWorld(t, settings{})
	untagged := filepath.Join(t.TempDir(), "gateway")
	// Unoptimized, SQLite compiles in seconds.
	w.must(build(untagged, []string{"GOFLAGS=", "CGO_CFLAGS=-O0"}))
	p := w.run(untagged, nil, "run")
	p.expectExit(1)
	said := strings.TrimSpace(p.stderr.String())
	if strings.Contains(said, "\n") || !strings.Contains(said, "make build") {
		t.Errorf("want one line that tells how to build, got:\n%s", said)
	}
}

// TestTroubleTellsNoSecret makes every connection fail in turn. That no secret
// stands in the log is checked at the end of every test.
func TestTroubleTellsNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	p := w.startServing()
	w.model.RequireKey("another")
	w.refusals = 1
	w.say(1, "m1")
	w.await("the answer that the key is wrong", func() bool { return len(w.platform.sent(1)) == 1 })
	if got := w.platform.sent(1)[0]; !strings.Contains(got, "API key") {
		t.Errorf("the answer does not say what is wrong: %q", got)
	}
	w.telegram.Fail("sendMessage", telegramtest.Drop(), 1)
	w.model.Close()
	w.say(1, "m2")
	w.await("the second answer", func() bool { return len(w.platform.sent(1)) == 2 })
	w.telegram.Close()
	w.awaitLog("can't be reached")
	p.stop()
}
